"""Names used in calls by both ends of a channel; proto/exchange.proto, group.proto and
serving.proto describe the services.
"""

# This number grows with each incompatible change of a message, because both ends need the same
# messages.
PROTOCOL = 4
SERVICE = "akdl.wire.Exchange"
GROUP_SERVICE = "akdl.wire.Group"
PREDICT_SERVICE = "akdl.wire.Predict"
# The file in the folder of a model process that has no unix socket: its tasks read the port there.
ADDRESS_FILE = "address"
