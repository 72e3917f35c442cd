package dns

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	miekg "github.com/miekg/dns"

	"healthd/e2e/patience"
	"healthd/runtime"
	"healthd/supervisor"
	"healthd/supervisor/core"
)

// view returns a container that is ready. changes make it something else.
func view(name, service, address string, changes ...func(*core.View)) *core.View {
	v := &core.View{
		Container: &runtime.Container{ID: idOf(name), Name: name, Address: address}, Spec: &core.Spec{Publish: core.Publish{Port: 8080}}, Service: service,
		State: core.State{Kept: &core.Kept{Engine: core.Engine{State: runtime.Running}, Conditions: core.Conditions{
			Started: core.Condition{Status: true}, ContainerReady: core.Condition{Status: true}, Ready: core.Condition{Status: true},
		}}},
	}
	for _, change := range changes {
		change(v)
	}
	return v
}

func idOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func port(n int) func(*core.View) { return func(v *core.View) { v.Spec.Publish.Port = n } }
func unready(v *core.View)        { v.State.Conditions.Ready.Status = false }
func owned(v *core.View)          { v.Spec.Publish.Owned = true }
func draining(v *core.View) {
	unready(v)
	v.State.Action.Stopping = core.ByLiveness
}

// many returns the containers of a service of n, from 10.0.0.0 on.
func many(service string, n int) []*core.View {
	all := make([]*core.View, n)
	for i := range all {
		all[i] = view(fmt.Sprintf("shop-web-%d", i), service, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	return all
}

var synced = []supervisor.RuntimeView{{Name: "docker", Synced: true}}

// history keeps events.
type history struct {
	mu     sync.Mutex
	events []core.Event
}

func (h *history) Record(e core.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *history) texts() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		all = append(all, e.Reason+": "+e.Message)
	}
	return all
}

func server(views ...*core.View) (*Server, *supervisor.Board) {
	board := supervisor.NewBoard(synced, views...)
	return New(board, &history{}), board
}

// start serves on a loopback address until the test ends.
func start(t testing.TB, s *Server, mostTCP int) (address string) {
	t.Helper()
	ls, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s, ls, mostTCP)
	return ls.Addr().String()
}

func serve(t testing.TB, s *Server, ls *Listeners, mostTCP int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ls, mostTCP) }()
	t.Cleanup(func() {
		cancel()
		if err := patience.Receive(t, "it ends", done); err != nil {
			t.Error(err)
		}
	})
}

// question returns a query: "NAME TYPE". size is that of EDNS; 0: without.
func question(text string, size uint16) *miekg.Msg {
	name, qtype, _ := strings.Cut(text, " ")
	m := new(miekg.Msg).SetQuestion(name, miekg.StringToType[qtype])
	if size > 0 {
		m.SetEdns0(size, false)
	}
	return m
}

// put asks without a network.
func put(t testing.TB, s *Server, m *miekg.Msg, tcp bool) *miekg.Msg {
	t.Helper()
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	longest := maxUDP
	if tcp {
		longest = maxTCP
	}
	answer := new(miekg.Msg)
	if err := answer.Unpack(s.respond(newWriter(longest), packet, tcp)); err != nil {
		t.Fatalf("%s: %v", m.Question[0].Name, err)
	}
	return answer
}

// ask asks over the network.
func ask(t testing.TB, address, network string, m *miekg.Msg) *miekg.Msg {
	t.Helper()
	c := miekg.Client{Net: network, Timeout: patience.Limit, UDPSize: maxTCP}
	answer, _, err := c.Exchange(m, address)
	if err != nil {
		t.Fatalf("%v %s: %v", m.Question, network, err)
	}
	return answer
}

// line returns an answer in one line: the code, the records, "+" before those that were not asked for, and why in brackets.
func line(m *miekg.Msg) string {
	var words []string
	if m.Rcode != miekg.RcodeSuccess {
		words = append(words, codeNames[slices.Index(countedCodes[:], m.Rcode)])
	}
	if !m.Authoritative {
		words = append(words, "not-ours")
	}
	if m.Truncated {
		words = append(words, "truncated")
	}
	answers := []string{}
	for _, rr := range m.Answer {
		answers = append(answers, record(rr))
	}
	slices.Sort(answers)
	words = append(words, answers...)
	more := []string{}
	for _, rr := range append(m.Ns, m.Extra...) {
		if rr.Header().Rrtype != miekg.TypeOPT {
			host := ""
			if rr.Header().Name != zone {
				host, _, _ = strings.Cut(rr.Header().Name, ".")
				host += "="
			}
			more = append(more, "+"+host+record(rr))
		}
	}
	slices.Sort(more)
	words = append(words, more...)
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			words = append(words, "("+o.(*miekg.EDNS0_EDE).ExtraText+")")
		}
	}
	return strings.Join(words, " ")
}

func record(rr miekg.RR) string {
	if rr.Header().Ttl != ttl {
		return fmt.Sprintf("with a TTL of %d: %v", rr.Header().Ttl, rr)
	}
	switch rr := rr.(type) {
	case *miekg.A:
		return rr.A.String()
	case *miekg.AAAA:
		return rr.AAAA.String()
	case *miekg.SRV:
		if rr.Priority != 0 || rr.Weight != 1 {
			return "other weights: " + rr.String()
		}
		return fmt.Sprintf("%s:%d", rr.Target, rr.Port)
	case *miekg.SOA:
		if rr.Hdr.Name != zone || rr.Minttl != ttl {
			return "another SOA: " + rr.String()
		}
		return "soa"
	case *miekg.NS:
		return "ns=" + rr.Ns
	case *miekg.HINFO:
		return "hinfo=" + rr.Cpu
	}
	return rr.String()
}
