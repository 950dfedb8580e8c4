"""Names that both ends of a line use in their calls; the services are described in proto/exchange.proto and group.proto."""

SERVICE = "akdl.wire.Exchange"
GROUP_SERVICE = "akdl.wire.Group"
TOKEN = "akdl-token"  # metadata key of the secret that proves who is calling
