package agent

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/tare-trace/tare/agent/config"
	"github.com/tare-trace/tare/agent/discover"
	"github.com/tare-trace/tare/bpf"
	"github.com/tare-trace/tare/span"
	"github.com/tare-trace/tare/span/semconv"
)

// An index that its service has left rests before anything else may get it:
// a process's last sockets, and what the kernel side has told of them, are
// long gone by then.
const rest = 5 * time.Minute

// maxServices is how many indices there are: those that the kernel side has room
// for, of which 0 is none.
const maxServices = bpf.Services - 1

// service is a service in one container, or outside of any, with its index.
//
// Its index alone finds a span's resource, container.id included. To give one
// index to all containers of a service, and to find the container by the record's
// process, would save indices and not be right: a record may be read when its
// process has ended, and its pid may be another's. There are enough indices for
// all containers that a host can run at once; those that come and go would use
// them up, so what has ended leaves its index to others.
type service struct {
	discover.Service
	index     uint16
	processes int       // that are known
	sockets   int       // that a process of it was the first to have, and that are still open
	idle      time.Time // when it had neither
}

func (s *service) kernel() bpf.Service {
	return bpf.Service{Index: s.index, Linking: uint8(s.Linking)}
}

// services gives services their indices. resource may be called by any
// goroutine, the rest by one at a time.
type services struct {
	log   *slog.Logger
	tell  func(index uint16, s *discover.Service) error // the kernel side, of a service's index
	limit int
	byKey map[string]*service
	next  int            // the lowest index that was never used
	in    map[string]int // how many of byKey are in a container
	left  []uint16       // indices that may be used again, the one first that has rested longest

	resources [bpf.Services]atomic.Pointer[span.Resource]
	published [bpf.Services]atomic.Uint32 // config.Published
	said      map[treatment]int           // how many indices have services that are treated so
	count     atomic.Int64                // of services that have an index
}

// treatment is what the log says of a service, once and not for every container.
type treatment struct{ name, linking, why string }

func treatmentOf(s *discover.Service) treatment { return treatment{s.Name, s.Linking.String(), s.Why} }

func newServices(log *slog.Logger, tell func(index uint16, s *discover.Service) error) *services {
	return &services{log: log, tell: tell, limit: maxServices, next: 1, byKey: map[string]*service{}, in: map[string]int{}, said: map[treatment]int{}}
}

// resource finds the resource of a service index; nil if there is none.
func (t *services) resource(index uint16) *span.Resource {
	if int(index) >= len(t.resources) {
		return nil
	}
	return t.resources[index].Load()
}

// get finds a service, or gives it an index. One that was never used is taken
// first, so that the others rest for as long as can be.
func (t *services) get(s discover.Service) (*service, error) {
	key := s.Key()
	if have := t.byKey[key]; have != nil {
		return have, nil
	}
	in := containerOf(&s)
	if in != "" && t.in[in] >= maxContainerNames {
		return nil, fmt.Errorf("container %s has more than %d services: %s is not traced; give its rule a name", in, maxContainerNames, s.Name)
	}
	added := &service{Service: s, idle: time.Now()}
	switch {
	case t.next <= t.limit:
		added.index = uint16(t.next)
		t.next++
	case len(t.left) > 0:
		added.index, t.left = t.left[0], t.left[1:]
	default:
		return nil, fmt.Errorf("no index is left for service %s: there are %d services in containers", s.Name, len(t.byKey))
	}
	if err := t.tell(added.index, &s); err != nil {
		t.left = append(t.left, added.index)
		return nil, err
	}
	t.byKey[key] = added
	if in != "" {
		t.in[in]++
	}
	t.count.Add(1)
	t.published[added.index].Store(uint32(s.Published))
	t.resources[added.index].Store(s.Resource())
	how := treatmentOf(&s)
	if t.said[how]++; t.said[how] == 1 {
		t.log.Info("service", "name", how.name, "linking", how.linking, "why", how.why)
	}
	return added, nil
}

// containerOf is the container of a service, "" outside of any.
func containerOf(s *discover.Service) string {
	for i := range s.Attrs {
		if s.Attrs[i].Key == "container.id" {
			return s.Attrs[i].Text()
		}
	}
	return ""
}

// keep is which of two spans of one request is to be kept, as semconv.SDKKeep.
func (t *services) keep(index uint16) string {
	if int(index) < len(t.published) {
		switch config.Published(t.published[index].Load()) {
		case config.KeepSDK:
			return semconv.KeepSDK
		case config.KeepTare:
			return semconv.KeepTare
		}
	}
	return ""
}

// use notes that a service has so many processes and sockets more, or fewer.
func (t *services) use(s *service, processes, sockets int) {
	s.processes += processes
	s.sockets += sockets
	if s.processes == 0 && s.sockets == 0 {
		s.idle = time.Now()
	}
}

// rested are the services that have had neither processes nor sockets for long
// enough.
func (t *services) rested() (list []*service) {
	for _, s := range t.byKey {
		if s.processes == 0 && s.sockets == 0 && time.Since(s.idle) >= rest {
			list = append(list, s)
		}
	}
	return list
}

// release gives a service's index up. A record that still names it has no
// resource from now on, and is counted as lost: no other service's span is made
// of it.
func (t *services) release(s *service) {
	t.resources[s.index].Store(nil)
	delete(t.byKey, s.Key())
	if in := containerOf(&s.Service); in != "" {
		if t.in[in]--; t.in[in] == 0 {
			delete(t.in, in)
		}
	}
	t.count.Add(-1)
	t.left = append(t.left, s.index)
	how := treatmentOf(&s.Service)
	if t.said[how]--; t.said[how] == 0 {
		delete(t.said, how)
	}
}
