package bpf

// Short names for what bpf2go generated from event.h.
//
//nolint:revive // their meaning stands in event.h, once
type (
	Start   = TareStartRecord
	Data    = TareDataRecord
	End     = TareEndRecord
	Control = TareControlRecord

	Published = TarePublishedRecord
	Path      = TarePathRecord
	Publisher = TarePublisher
	Service   = TareService
	Prefix    = TarePrefix
	Linking   = TareLinking
	Counter   = TareCounter

	MeasureKey = TareMeasureKey
	Measure    = TareMeasure
	PortKey    = TarePortKey

	TaskProgram = TareTaskProgram

	GoProgram = TareGoProgram
	GoContext = TareGoContext
	GoKey     = TareGoKey
	GoPlace   = TareGoPlace

	GoGRPCClient  = TareGoGrpcClient
	GoHTTP2Server = TareGoHttp2Server
)

// How a service's receives are linked to its sends.
const (
	LinkAuto      = TareLinkingTARE_LINK_AUTO
	LinkThread    = TareLinkingTARE_LINK_THREAD
	LinkLoop      = TareLinkingTARE_LINK_LOOP
	LinkNone      = TareLinkingTARE_LINK_NONE
	LinkQueue     = TareLinkingTARE_LINK_QUEUE
	LinkGoroutine = TareLinkingTARE_LINK_GOROUTINE
	LinkTask      = TareLinkingTARE_LINK_TASK
)

// PublisherPath is how many loads the path of a Publisher has room for.
const PublisherPath = len(Publisher{}.Record.At)

// What task.bpf.h has: the state of a TaskProgram that was read, and how many loads
// its paths have room for.
const (
	TaskRead = 1
	TaskPath = len(TaskProgram{}.Java.Thread.At)
)

// What a goroutine is for.
const (
	GoServe     = TareGoPlaceGO_SERVE
	GoWriteLoop = TareGoPlaceGO_WRITE_LOOP
	GoGRPCCall  = TareGoPlaceGO_GRPC_CALL
	GoGRPCWrite = TareGoPlaceGO_GRPC_WRITE
	GoHTTP2Ask  = TareGoPlaceGO_HTTP2ASK
	GoHTTP2Call = TareGoPlaceGO_HTTP2CALL
	GoHTTP2Read = TareGoPlaceGO_HTTP2READ
	GoHTTP2     = TareGoPlaceGO_HTTP2
)

// What carries the context of a request between hosts.
const (
	TagTCP  = TareTagCarrierTARE_TAG_TCP
	TagNone = TareTagCarrierTARE_TAG_NONE
	TagIP   = TareTagCarrierTARE_TAG_IP
)

// Of the memory of retroactive sampling; enum retro_layout.
const (
	RetroSegment = int(TareRetroLayoutTARE_RETRO_SEGMENT)
	RetroShift   = int(TareRetroLayoutTARE_RETRO_SHIFT)
	RetroWords   = int(TareRetroLayoutTARE_RETRO_WORDS)
)

// What the two sides of that memory tell each other.
type (
	// RetroPlace is how far a CPU has written.
	RetroPlace = TareRetroPlace
	// RetroRule is what triggers, of a service.
	RetroRule = TareRetroRule
	// RetroTrigger is a request whose trace is to be kept.
	RetroTrigger = TareRetroTrigger
)

// DataShort is the size in bytes of a Data record without payload.
const DataShort = 24

// UnlinkedShift is where in the flags of a Data record enum unlinked stands;
// TareName how many bytes of a service's name a peer is told. As in event.h.
const (
	UnlinkedShift = 3
	TareName      = len(Start{}.Behind)
)

// Services is how many indices of services the kernel side has room for.
const Services = 4096

// Bytes of payload that the records have: Start's, most Data's, and Data's that begin a
// response of HTTP/1; FrameRest is the type of the rest of a frame with headers. As in event.h.
const (
	TarePayloadStart = len(Start{}.Payload)
	TarePayloadData  = 48
	TarePayloadHead  = len(Data{}.Payload)
	FrameRest        = 0xff
	FramePath        = 0xfe
)

// HeaderSplit marks a header whose values HTTP/2 has otherwise than HTTP/1. As in event.h.
const HeaderSplit = 0x80
