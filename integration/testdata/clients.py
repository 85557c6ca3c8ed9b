"""Clients of databases: clients.py CLIENT PORT asks a server on this host what
protocols_test.go wants to see in spans."""

import sys


def pymysql(port):
    import pymysql
    db = pymysql.connect(host="127.0.0.1", port=port, user="anna", password="hunter2", autocommit=True)
    cursor = db.cursor()

    def ask(*query):
        try:
            cursor.execute(*query)
            cursor.fetchall()
        except pymysql.err.Error as e:
            print(e)

    ask("CREATE DATABASE shop")
    db.select_db("shop")
    ask("CREATE TABLE items (id int PRIMARY KEY)")
    ask("INSERT INTO items VALUES (%s)", (17,))
    ask("INSERT INTO items VALUES (17)")
    ask("SELECT * FROM items WHERE id < %s", (18,))
    ask("SELECT * FROM item WHERE id = 'secret'")
    ask("SELECT " + ", ".join("'seventeen'" for _ in range(99)))
    ask("hunter2")
    db.ping()
    db.close()


def pylibmc(port):
    import pylibmc
    client = pylibmc.Client(["127.0.0.1:%d" % port], binary=True)
    client.set("item:7", "secret")
    client.get("item:7")
    client.get("item:8")
    client.add("item:7", "seventeen")
    try:
        client.incr("item:7")
    except pylibmc.Error as e:
        print(e)
    client.delete("item:7")


def resp3(port):
    import socket
    sock = socket.create_connection(("127.0.0.1", port))

    def ask(*words):
        sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words))
        return sock.recv(1 << 16)

    ask(b"HELLO", b"3")
    ask(b"HSET", b"cart", b"item", b"secret")
    ask(b"HGETALL", b"cart")
    ask(b"GET", b"cart")
    ask(b"HELLO", b"3", b"AUTH", b"anna", b"hunter2")


{"pymysql": pymysql, "pylibmc": pylibmc, "resp3": resp3}[sys.argv[1]](int(sys.argv[2]))
