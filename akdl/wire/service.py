"""Names that both ends of a line use in their calls; the services are described in proto/exchange.proto,
group.proto and serving.proto.
"""

SERVICE = "akdl.wire.Exchange"
GROUP_SERVICE = "akdl.wire.Group"
PREDICT_SERVICE = "akdl.wire.Predict"
