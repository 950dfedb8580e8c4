"""Names that both ends of the process line use in their calls; the service itself is described in proto/exchange.proto."""

SERVICE = "akdl.wire.Exchange"
TOKEN = "akdl-token"  # metadata key of the secret that proves whose process is calling
