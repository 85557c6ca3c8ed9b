package spans

import (
	"encoding/binary"
	"strconv"
	"strings"
)

const (
	amqpHeader  = 7       // bytes: type, channel, size
	amqpEnd     = 0xce    // behind each frame
	amqpLongest = 1 << 24 // bytes
)

// amqpMethods are those of clients, by class and method; AMQP 0-9-1 and RabbitMQ's.
var amqpMethods = map[uint32]string{
	10<<16 | 11: "connection.start-ok", 10<<16 | 21: "connection.secure-ok", 10<<16 | 31: "connection.tune-ok",
	10<<16 | 40: "connection.open", 10<<16 | 50: "connection.close", 10<<16 | 51: "connection.close-ok", 10<<16 | 70: "connection.update-secret",
	20<<16 | 10: "channel.open", 20<<16 | 20: "channel.flow", 20<<16 | 21: "channel.flow-ok", 20<<16 | 40: "channel.close", 20<<16 | 41: "channel.close-ok",
	40<<16 | 10: "exchange.declare", 40<<16 | 20: "exchange.delete", 40<<16 | 30: "exchange.bind", 40<<16 | 40: "exchange.unbind",
	50<<16 | 10: "queue.declare", 50<<16 | 20: "queue.bind", 50<<16 | 30: "queue.purge", 50<<16 | 40: "queue.delete", 50<<16 | 50: "queue.unbind",
	60<<16 | 10: "basic.qos", 60<<16 | 20: "basic.consume", 60<<16 | 30: "basic.cancel", 60<<16 | 31: "basic.cancel-ok", 60<<16 | 40: "basic.publish",
	60<<16 | 70: "basic.get", 60<<16 | 80: "basic.ack", 60<<16 | 90: "basic.reject", 60<<16 | 100: "basic.recover-async", 60<<16 | 110: "basic.recover",
	60<<16 | 120: "basic.nack",
	85<<16 | 10:  "confirm.select", 90<<16 | 10: "tx.select", 90<<16 | 20: "tx.commit", 90<<16 | 30: "tx.rollback",
}

// amqpFrame takes the first frame; body is what was seen of it.
type amqpFrame struct {
	kind    byte
	channel uint16
	size    int
	body    []byte
	whole   bool
}

// amqpNext takes a frame, of at most left bytes with its head and its end.
func amqpNext(b []byte, left int) (fr amqpFrame, rest []byte, ok bool) {
	if len(b) < amqpHeader {
		return fr, nil, false
	}
	fr.kind, fr.channel, fr.size = b[0], binary.BigEndian.Uint16(b[1:]), int(binary.BigEndian.Uint32(b[3:]))
	if fr.size > amqpLongest || amqpHeader+fr.size+1 > left {
		return fr, nil, false
	}
	b = b[amqpHeader:]
	fr.body = b[:min(fr.size, len(b))]
	if len(b) > fr.size {
		fr.whole = true
		return fr, b[fr.size+1:], b[fr.size] == amqpEnd
	}
	return fr, nil, true
}

func (fr amqpFrame) method() uint32 {
	if fr.kind != 1 || len(fr.body) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(fr.body)
}

// identifyAMQP reads the frames of a request, of AMQP 0-9-1. It is named by its first
// method; acknowledgements, which are sent along with others, only if there is no other.
func identifyAMQP(x exchange) (f facts, ok bool) {
	f.protocol = protocolAMQP
	if len(x.response) > 0 && !amqpAnswer(x.response) {
		return facts{}, false
	}
	if string(x.request) == "AMQP\x00\x00\x09\x01" && x.size == len(x.request) {
		f.operation = "ProtocolHeader"
		return f, true
	}
	b, left := x.request, x.size
	for n := 0; len(b) >= amqpHeader; n++ {
		fr, rest, sound := amqpNext(b, left)
		if !sound || fr.kind == 0 || fr.kind > 3 && fr.kind != 8 {
			return facts{}, false
		}
		name := amqpMethods[fr.method()]
		switch {
		case fr.kind == 8 && fr.size == 0 && fr.channel == 0: // a heartbeat
			if f.operation == "" {
				f.operation, f.unanswered = "heartbeat", true
			}
		case fr.kind == 1 && name != "" && (fr.channel == 0) == strings.HasPrefix(name, "connection."):
			if f.operation == "" || f.unanswered && f.operation != "basic.publish" {
				f.amqpMethod(name, fr.body[4:])
			}
		case fr.kind != 1 && fr.kind != 8 && n > 0 && fr.channel > 0: // the content of a method
		default:
			return facts{}, false
		}
		if !fr.whole {
			break
		}
		left -= len(b) - len(rest)
		b = rest
	}
	f.failure = amqpFailure(x.response)
	return f, f.operation != ""
}

// amqpMethod names a request by a method, and its exchange or queue.
func (f *facts) amqpMethod(name string, b []byte) {
	f.operation, f.destination, f.place, f.routing, f.sends, f.unanswered = name, "", "", "", "", false
	text := func(skip int) string { return amqpText(&b, skip) }
	switch name {
	case "basic.publish":
		exchange, key := text(2), text(0)
		f.sends, f.unanswered, f.routing = "send", true, key // unless it is confirmed
		f.place = exchange
		switch {
		case exchange == "": // the default one: the key is the queue
			f.destination, f.place = key, key
		case key == "":
			f.destination = exchange
		default:
			f.destination = exchange + ":" + key
		}
	case "basic.get", "basic.consume":
		f.sends, f.destination = "receive", text(2)
	case "basic.ack", "basic.nack", "basic.reject":
		f.sends, f.unanswered = "settle", true
	case "queue.declare", "queue.purge", "queue.delete", "queue.bind", "queue.unbind", "exchange.declare", "exchange.delete":
		f.destination = text(2)
	default:
		f.unanswered = strings.HasSuffix(name, "-ok") && !strings.HasPrefix(name, "connection.")
	}
	if f.place == "" {
		f.place = f.destination
	}
	if strings.HasPrefix(f.place, "amq.") { // named by the server, for this connection or so
		f.place = ""
	}
}

// amqpText takes a short string behind skip bytes, "" if it was not seen.
func amqpText(b *[]byte, skip int) string {
	s := *b
	if len(s) < skip+1 || len(s) < skip+1+int(s[skip]) {
		*b = nil
		return ""
	}
	s = s[skip+1:]
	n := int((*b)[skip])
	*b = s[n:]
	return printable(s[:n])
}

// amqpAnswer: of a server, or its header, where it speaks another version.
func amqpAnswer(b []byte) bool {
	if strings.HasPrefix(string(b), "AMQP") {
		return true
	}
	fr, _, ok := amqpNext(b, amqpLongest)
	if !ok {
		return len(b) < amqpHeader && b[0] >= 1 && b[0] <= 8
	}
	switch fr.kind {
	case 1:
		class := fr.method() >> 16
		return len(fr.body) < 4 || class == 10 || class == 20 || class == 40 || class == 50 || class == 60 || class == 85 || class == 90
	case 2, 3:
		return fr.channel > 0
	}
	return fr.kind == 8 && fr.size == 0
}

// amqpFailure is the code with which a server closes a channel or a connection.
func amqpFailure(b []byte) string {
	fr, _, ok := amqpNext(b, amqpLongest)
	if m := fr.method(); !ok || m != 20<<16|40 && m != 10<<16|50 {
		return ""
	}
	if len(fr.body) < 6 {
		return otherFailure
	}
	if code := int(binary.BigEndian.Uint16(fr.body[4:])); code != 200 {
		return strconv.Itoa(code)
	}
	return ""
}
