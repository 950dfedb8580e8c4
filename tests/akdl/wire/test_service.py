"""Names of the services, as proto/ has them."""

from __future__ import annotations

from akdl.wire import exchange_pb2, group_pb2, service, serving_pb2


def test_the_services_are_those_of_proto() -> None:
    described = [
        one.full_name
        for module in (exchange_pb2, group_pb2, serving_pb2)
        for one in module.DESCRIPTOR.services_by_name.values()
    ]
    assert described == [service.SERVICE, service.GROUP_SERVICE, service.PREDICT_SERVICE]
