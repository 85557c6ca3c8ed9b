package spans

import (
	"encoding/binary"
	"strconv"
)

const (
	kafkaLongest  = 100 << 20 // bytes; socket.request.max.bytes
	kafkaClient   = 249       // bytes of a client's name
	kafkaInFlight = 100       // requests that a client may send before the first is answered
	kafkaName     = 249       // bytes of a topic
)

// kafkaAPI is what a request may ask for. In versions from flexible on, lengths are
// written in another way, and from throttles on its response has four bytes before
// its error; always: its error is in front, never: it has none there.
type kafkaAPI struct {
	name                        string
	newest, flexible, throttles int16
	group                       bool // it begins with the name of a consumer group
}

const (
	never  = 1 << 14
	always = never - 1
)

// https://kafka.apache.org/protocol.html
var kafkaAPIs = map[int16]kafkaAPI{
	0:  {"Produce", 13, 9, never, false},
	1:  {"Fetch", 18, 12, never, false},
	2:  {"ListOffsets", 11, 6, never, false},
	3:  {"Metadata", 13, 9, never, false},
	8:  {"OffsetCommit", 10, 8, never, true},
	9:  {"OffsetFetch", 10, 6, never, false},
	10: {"FindCoordinator", 6, 3, 1, false},
	11: {"JoinGroup", 9, 6, 2, true},
	12: {"Heartbeat", 4, 4, 1, true},
	13: {"LeaveGroup", 5, 4, 1, true},
	14: {"SyncGroup", 5, 4, 1, true},
	15: {"DescribeGroups", 6, 5, never, false},
	16: {"ListGroups", 5, 3, 1, false},
	17: {"SaslHandshake", 1, never, always, false},
	18: {"ApiVersions", 4, 3, always, false},
	19: {"CreateTopics", 7, 5, never, false},
	20: {"DeleteTopics", 6, 4, never, false},
	21: {"DeleteRecords", 2, 2, never, false},
	22: {"InitProducerId", 6, 2, 0, false},
	23: {"OffsetForLeaderEpoch", 4, 4, never, false},
	24: {"AddPartitionsToTxn", 5, 3, never, false},
	25: {"AddOffsetsToTxn", 4, 3, 0, false},
	26: {"EndTxn", 5, 3, 0, false},
	27: {"WriteTxnMarkers", 2, 1, never, false},
	28: {"TxnOffsetCommit", 5, 3, never, false},
	29: {"DescribeAcls", 3, 2, 0, false},
	30: {"CreateAcls", 3, 2, never, false},
	31: {"DeleteAcls", 3, 2, never, false},
	32: {"DescribeConfigs", 4, 4, never, false},
	33: {"AlterConfigs", 2, 2, never, false},
	34: {"AlterReplicaLogDirs", 2, 2, never, false},
	35: {"DescribeLogDirs", 5, 2, never, false},
	36: {"SaslAuthenticate", 2, 2, always, false},
	37: {"CreatePartitions", 3, 2, never, false},
	38: {"CreateDelegationToken", 3, 2, never, false},
	39: {"RenewDelegationToken", 2, 2, never, false},
	40: {"ExpireDelegationToken", 2, 2, never, false},
	41: {"DescribeDelegationToken", 3, 2, never, false},
	42: {"DeleteGroups", 2, 2, never, false},
	43: {"ElectLeaders", 2, 2, never, false},
	44: {"IncrementalAlterConfigs", 1, 1, never, false},
	45: {"AlterPartitionReassignments", 1, 0, 0, false},
	46: {"ListPartitionReassignments", 0, 0, 0, false},
	47: {"OffsetDelete", 0, never, always, false},
	48: {"DescribeClientQuotas", 1, 1, 0, false},
	49: {"AlterClientQuotas", 1, 1, never, false},
	50: {"DescribeUserScramCredentials", 0, 0, 0, false},
	51: {"AlterUserScramCredentials", 0, 0, never, false},
	55: {"DescribeQuorum", 2, 0, always, false},
	57: {"UpdateFeatures", 2, 0, 0, false},
	60: {"DescribeCluster", 2, 0, 0, false},
	61: {"DescribeProducers", 0, 0, never, false},
	65: {"DescribeTransactions", 0, 0, never, false},
	66: {"ListTransactions", 2, 0, 0, false},
	68: {"ConsumerGroupHeartbeat", 1, 0, 0, true},
	69: {"ConsumerGroupDescribe", 1, 0, never, false},
	71: {"GetTelemetrySubscriptions", 0, 0, 0, false},
	72: {"PushTelemetry", 0, 0, 0, false},
	74: {"ListConfigResources", 1, 0, 0, false},
	75: {"DescribeTopicPartitions", 0, 0, never, false},
}

// identifyKafka reads the header of a request and, of those for records, the only
// topic. What is there has to agree with the size of the request, and the response
// has to name the request, or one shortly before it.
func identifyKafka(x exchange) (f facts, ok bool) {
	b := x.request
	if len(b) < 14 {
		return f, false
	}
	n, version, id := kafkaInt(b), kafkaShort(b[6:]), kafkaInt(b[8:])
	api, known := kafkaAPIs[kafkaShort(b[4:])]
	named := int(kafkaShort(b[12:])) // -1: no name
	if !known || version < 0 || version > api.newest || id < 0 || named < -1 || named > kafkaClient ||
		n > kafkaLongest || n < 10+max(named, 0) || n+4 > x.size {
		return f, false
	}
	r := kafkaReader{b: b[14:min(n+4, len(b))], flexible: version >= api.flexible}
	if client := r.take(max(named, 0)); printable(client) != string(client) {
		return f, false
	}
	r.tags()
	alone := n+4 == x.size
	if (!alone || named <= 0) && len(x.response) < 8 {
		return f, false
	}
	if len(x.response) > 0 && !kafkaAnswer(x.response, id, named <= 0) {
		return f, false
	}
	f.protocol, f.operation, f.version = protocolKafka, api.name, strconv.Itoa(int(version))
	switch api.name {
	case "Produce":
		f.sends, f.unanswered = "send", r.produce(version)
		f.destination = r.topic(version < 13)
	case "Fetch":
		f.sends = "receive"
		r.fetch(version)
		f.destination = r.topic(version < 13)
	case "OffsetCommit":
		f.sends = "settle"
	}
	if api.group {
		f.group = printable(r.text())
	}
	// A response to an earlier request says nothing of this one.
	if alone && len(x.response) >= 8 && kafkaInt(x.response[4:]) == id {
		f.failure = kafkaFailure(x.response[8:], api, version)
	}
	return f, true
}

func kafkaInt(b []byte) int     { return int(int32(binary.BigEndian.Uint32(b))) } //nolint:gosec // signed on the wire
func kafkaShort(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }      //nolint:gosec // likewise

// kafkaAnswer: some clients read the length alone. exact: of this request, and no other.
func kafkaAnswer(b []byte, id int, exact bool) bool {
	if len(b) < 4 || kafkaInt(b) < 4 || kafkaInt(b) > kafkaLongest {
		return false
	}
	if len(b) < 8 {
		return len(b) == 4
	}
	before := id - kafkaInt(b[4:])
	return before == 0 || !exact && before > 0 && before <= kafkaInFlight
}

// kafkaReader takes fields in their order; once one was not seen, all are empty.
type kafkaReader struct {
	b        []byte
	flexible bool
	cut      bool
}

func (r *kafkaReader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.cut = nil, true
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

// number takes an integer of n bytes.
func (r *kafkaReader) number(n int) (v int) {
	for _, c := range r.take(n) {
		v = v<<8 | int(c)
	}
	return v
}

// length takes how many there are: of flexible versions one more, and 7 bits in a byte.
func (r *kafkaReader) length(size int) int {
	if !r.flexible {
		return r.number(size)
	}
	v := 0
	for shift := 0; shift < 28; shift += 7 {
		c := r.number(1)
		v |= c & 0x7f << shift
		if c < 0x80 {
			return v - 1
		}
	}
	r.take(-1)
	return 0
}

func (r *kafkaReader) text() []byte {
	n := r.length(2)
	if n == 0xffff || n < 0 { // null
		return nil
	}
	return r.take(n)
}

// tags takes the fields that flexible versions may have. There are none.
func (r *kafkaReader) tags() {
	if r.flexible && r.number(1) != 0 {
		r.take(-1)
	}
}

// produce goes to the topics; unanswered: the client wants no response.
func (r *kafkaReader) produce(version int16) (unanswered bool) {
	if version >= 3 {
		r.text() // transaction
	}
	acks := r.number(2)
	r.take(4)
	return acks == 0 && !r.cut
}

func (r *kafkaReader) fetch(version int16) {
	if version < 15 {
		r.take(4) // replica
	}
	r.take(8) // how long, how much
	if version >= 3 {
		r.take(4)
	}
	if version >= 4 {
		r.take(1)
	}
	if version >= 7 {
		r.take(8) // session
	}
}

// topic is the only one; named: it does not stand there by its id.
func (r *kafkaReader) topic(named bool) string {
	if r.length(4) != 1 || !named {
		return ""
	}
	text := r.text()
	if len(text) > kafkaName {
		return ""
	}
	return printable(text)
}

// kafkaFailure is the code of an error, "" if there is none or it is not in front.
func kafkaFailure(b []byte, api kafkaAPI, version int16) string {
	r := kafkaReader{b: b, flexible: version >= api.flexible}
	if api.name != "ApiVersions" { // whose response all clients can read
		r.tags()
	}
	switch {
	case api.name == "Produce": // of the first partition
		if r.length(4) != 1 {
			return ""
		}
		if version < 13 {
			r.text()
		} else {
			r.take(16)
		}
		r.length(4)
		r.take(4)
	case api.name == "Fetch" && version >= 7, api.name == "FindCoordinator" && version >= 1 && version < 4:
		r.take(4)
	case api.throttles == never, api.name == "FindCoordinator" && version >= 4:
		return ""
	case version >= api.throttles:
		r.take(4)
	}
	if code := r.number(2); code != 0 && !r.cut {
		return strconv.Itoa(int(int16(code))) //nolint:gosec // -1 is one
	}
	return ""
}
