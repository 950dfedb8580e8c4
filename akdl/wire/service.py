"""Names used in calls by both ends of a channel; proto/exchange.proto, group.proto and serving.proto describe the services."""

PROTOCOL = 3  # rises when a message of the process line changes its meaning; both ends have to have the same
SERVICE = "akdl.wire.Exchange"
GROUP_SERVICE = "akdl.wire.Group"
PREDICT_SERVICE = "akdl.wire.Predict"
ADDRESS_FILE = "address"  # in the folder of a model process that cannot have a unix socket
