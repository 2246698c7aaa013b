"""Bytewax, which keeps its offsets in files of its own: `python -m bytewax.run bytewax_flow -r FOLDER`."""

import os

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

brokers = [os.environ["BOOTSTRAP"]]


def upper(message: KafkaSourceMessage) -> KafkaSinkMessage:
    return KafkaSinkMessage(message.key, message.value.upper())


flow = Dataflow("upper")
source = kop.input("source", flow, brokers=brokers, topics=[os.environ["SOURCE"]])
kop.output("sink", op.map("upper", source.oks, upper), brokers=brokers, topic=os.environ["SINK"])
