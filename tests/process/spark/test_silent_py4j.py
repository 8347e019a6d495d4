"""Spark's JVM dies while it is asked something: a program that ends in good order prints no traceback."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import socket, struct, sys, threading
from py4j.java_gateway import GatewayClient, GatewayParameters
from drkit.spark.session import silence_py4j

if sys.argv[1] == "silent":
    silence_py4j()
server = socket.create_server(("127.0.0.1", 0))

def resets():
    while True:
        connection, _ = server.accept()
        connection.recv(100)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

threading.Thread(target=resets, daemon=True).start()
client = GatewayClient(gateway_parameters=GatewayParameters(port=server.getsockname()[1]))
print(client.send_command("c\\no1\\nname\\ne\\n"))
"""


def said(how: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip(), "py4j returns an answer that means an error"
    return done.stderr


def test_what_py4j_says_of_a_dead_jvm_is_not_printed():
    assert "Traceback" in said("as it comes"), "the test shows nothing"
    assert not said("silent")
