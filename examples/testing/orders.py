"""The service that is tested: it takes orders and tells what becomes of them."""

from cometmq import Message, ReceivedMessage
from cometmq.blocking import Producer, PushConsumer


class OrderService:
    """Takes orders from one topic, and sends bills to another."""

    def __init__(self, name_server: str, orders: str, bills: str) -> None:
        self._bills = bills
        self._producer = Producer("order-service", name_server)
        self._consumer = PushConsumer("order-service", name_server)
        self._consumer.subscribe(orders)
        self._consumer.listen(self._take)

    def __enter__(self) -> "OrderService":
        self._producer.start()
        self._consumer.start()
        self._consumer.ready()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.close()

    def _take(self, message: ReceivedMessage) -> None:
        order = message.json()
        if order["amount"] <= 0:
            raise ValueError("an order of nothing comes again, and ends as a dead letter")
        bill = f"{order['amount']} x {order['item']}"
        self._producer.send(Message(self._bills, bill, keys=order["id"]))
