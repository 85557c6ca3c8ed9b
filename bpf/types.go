package bpf

// Short names for what bpf2go generated from event.h.
//
//nolint:revive // their meaning stands in event.h, once
type (
	Start   = TareStartRecord
	Data    = TareDataRecord
	End     = TareEndRecord
	Control = TareControlRecord
	Service = TareService
	Prefix  = TarePrefix
	Linking = TareLinking
	Counter = TareCounter

	MeasureKey = TareMeasureKey
	Measure    = TareMeasure
	PortKey    = TarePortKey
)

// How a service's receives are linked to its sends.
const (
	LinkAuto   = TareLinkingTARE_LINK_AUTO
	LinkThread = TareLinkingTARE_LINK_THREAD
	LinkLoop   = TareLinkingTARE_LINK_LOOP
	LinkNone   = TareLinkingTARE_LINK_NONE
	LinkQueue  = TareLinkingTARE_LINK_QUEUE
)

// What carries the context of a request between hosts.
const (
	TagTCP  = TareTagCarrierTARE_TAG_TCP
	TagNone = TareTagCarrierTARE_TAG_NONE
	TagIP   = TareTagCarrierTARE_TAG_IP
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

// Bytes of payload that the records have room for.
const (
	TarePayloadStart = len(Start{}.Payload)
	TarePayloadData  = len(Data{}.Payload)
)
