package dns

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	miekg "github.com/miekg/dns"
)

const (
	// maxQuery is the length of the longest query that is read: a name, and what resolvers fill it up with.
	maxQuery = 1232
	// maxUDP is that of the longest answer by UDP: it goes through every network in one piece.
	maxUDP = 1232
	maxTCP = 65535
	// smallUDP is what clients take that do not say more.
	smallUDP = 512

	headerLength = 12
	// most names that a writer keeps room for between two answers.
	keptNames = 256
)

// request is a query that was read.
type request struct {
	*miekg.Msg
	opt   *miekg.OPT // nil: the client does not know EDNS
	wrong int        // the code of what is wrong with it, which is all that is answered; 0: nothing
}

// read reads a query. It returns nil for what is none: that gets no answer, so that no two servers answer each other.
func read(packet []byte) *request {
	const response, opcodes = 0x80, 0x78
	if len(packet) < headerLength || packet[2]&response != 0 {
		return nil
	}
	r := &request{Msg: &miekg.Msg{MsgHdr: miekg.MsgHdr{Id: binary.BigEndian.Uint16(packet), Opcode: int(packet[2]&opcodes) >> 3, RecursionDesired: packet[2]&1 != 0}}}
	count := func(section int) uint16 { return binary.BigEndian.Uint16(packet[4+2*section:]) }
	switch {
	case r.Opcode != miekg.OpcodeQuery:
		r.wrong = miekg.RcodeNotImplemented
	case count(0) != 1, count(1) != 0, count(2) > 1, count(3) > 2: // IXFR has a record in the third section
		r.wrong = miekg.RcodeFormatError
	default:
		m := new(miekg.Msg)
		if m.Unpack(packet) != nil || len(m.Question) != 1 {
			r.wrong = miekg.RcodeFormatError
			break
		}
		r.Msg = m
		r.readOPT()
	}
	return r
}

func (r *request) readOPT() {
	for _, rr := range r.Extra {
		opt, ok := rr.(*miekg.OPT)
		switch {
		case !ok:
		case r.opt != nil:
			r.wrong = miekg.RcodeFormatError
		case opt.Version() != 0:
			r.opt, r.wrong = opt, miekg.RcodeBadVers
		default:
			r.opt = opt
		}
	}
}

// room returns how long an answer by UDP may be.
func (r *request) room() int {
	if r.opt == nil {
		return smallUDP
	}
	return min(max(int(r.opt.UDPSize()), smallUDP), maxUDP)
}

// unasked returns how long an answer may become by records that were not asked for, also by TCP: HAProxy takes no longer ones
// than it says, and nothing of those that are.
func (r *request) unasked() int {
	if r.opt == nil {
		return maxTCP
	}
	return max(int(r.opt.UDPSize()), smallUDP)
}

// writer writes one answer after the other. It belongs to one goroutine.
type writer struct {
	buf   []byte // as long as the longest answer
	limit int
	off   int
	names map[string]int // where each name is, so that it need not be repeated
	order []int
	a     miekg.A
	aaaa  miekg.AAAA
	srv   miekg.SRV
	ip4   [4]byte
	ip16  [16]byte
}

func newWriter(longest int) *writer {
	return &writer{buf: make([]byte, longest), names: map[string]int{}}
}

// The sections of a message.
const (
	answers     = 6 // where the header counts them
	authorities = 8
	additionals = 10
)

// write returns the answer to a request, of at most limit bytes. Nobody may use it after the next call. What does not
// fit is left out: records that were not asked for without a word, others with a mark.
func (w *writer) write(r *request, a *answer, limit int) []byte {
	opt := replyOPT(r, a.rcode)
	reserved := 0
	if opt != nil {
		reserved = miekg.Len(opt)
	}
	w.limit = limit - reserved
	w.begin(r, a)
	fits := true
	switch {
	case len(a.endpoints) > 0:
		fits = w.putEndpoints(r.Question[0].Name, a.endpoints, r.unasked()-reserved)
	case len(a.addresses) > 0:
		fits = w.putAddresses(r.Question[0].Name, a.addresses)
	}
	for _, rr := range a.records {
		fits = w.put(rr, answers) && fits
	}
	if a.empty() {
		w.put(soa(zone), authorities)
	}
	if !fits {
		const truncated = 0x02
		w.buf[2] |= truncated
	}
	w.limit = limit
	w.putOPT(opt, a)
	return w.buf[:w.off]
}

// begin writes the header and the question.
func (w *writer) begin(r *request, a *answer) {
	m := miekg.Msg{MsgHdr: miekg.MsgHdr{
		Id: r.Id, Response: true, Opcode: r.Opcode, Authoritative: r.wrong == 0 && !a.outside, RecursionDesired: r.RecursionDesired,
		CheckingDisabled: r.CheckingDisabled, Rcode: a.rcode & 0xf,
	}, Question: r.Question}
	packed, err := m.PackBuffer(w.buf)
	if err != nil { // the question came from a packet, so it fits into one
		m.Question = nil
		packed, _ = m.PackBuffer(w.buf)
	}
	w.off = len(packed)
	if len(w.names) > keptNames {
		w.names = map[string]int{}
	}
	clear(w.names)
	if len(m.Question) > 0 {
		_, _ = miekg.PackDomainName(m.Question[0].Name, w.buf, headerLength, w.names, false)
	}
}

// put adds a record, unless there is no room for it.
func (w *writer) put(rr miekg.RR, section int) bool {
	off, err := miekg.PackRR(rr, w.buf[:w.limit], w.off, w.names, true)
	if err != nil {
		return false
	}
	w.off = off
	binary.BigEndian.PutUint16(w.buf[section:], binary.BigEndian.Uint16(w.buf[section:])+1)
	return true
}

// shuffled yields the numbers below n in a random order: each time another part of them may fit.
func (w *writer) shuffled(n int, yield func(i int) bool) (all bool) {
	w.order = w.order[:0]
	for i := range n {
		w.order = append(w.order, i)
	}
	for i := range n {
		j := i + rand.IntN(n-i)
		w.order[i], w.order[j] = w.order[j], w.order[i]
		if !yield(w.order[i]) {
			return false
		}
	}
	return true
}

func (w *writer) putAddresses(name string, all []netip.Addr) (fits bool) {
	return w.shuffled(len(all), func(i int) bool { return w.putAddress(name, all[i], answers) })
}

func (w *writer) putAddress(name string, ip netip.Addr, section int) bool {
	if ip.Is4() {
		w.ip4 = ip.As4()
		w.a = miekg.A{Hdr: header(name, miekg.TypeA), A: w.ip4[:]}
		return w.put(&w.a, section)
	}
	w.ip16 = ip.As16()
	w.aaaa = miekg.AAAA{Hdr: header(name, miekg.TypeAAAA), AAAA: w.ip16[:]}
	return w.put(&w.aaaa, section)
}

// putEndpoints adds the addresses of their names, too, as far as there is room for them in most bytes.
func (w *writer) putEndpoints(name string, all []endpoint, most int) (fits bool) {
	put := 0
	fits = w.shuffled(len(all), func(i int) bool {
		if all[i].target == "" {
			return true
		}
		w.srv = miekg.SRV{Hdr: header(name, miekg.TypeSRV), Weight: 1, Port: all[i].port, Target: all[i].target}
		if !w.put(&w.srv, answers) {
			return false
		}
		w.order[put] = i
		put++
		return true
	})
	w.limit = min(w.limit, most)
	for _, i := range w.order[:put] {
		if !fits || !w.putAddress(all[i].target, all[i].ip, additionals) {
			break
		}
	}
	return fits
}

// replyOPT returns nil for a client that does not know EDNS.
func replyOPT(r *request, rcode int) *miekg.OPT {
	if r.opt == nil {
		return nil
	}
	opt := &miekg.OPT{Hdr: miekg.RR_Header{Name: ".", Rrtype: miekg.TypeOPT}}
	opt.SetUDPSize(maxQuery)
	opt.SetDo(r.opt.Do())
	opt.SetExtendedRcode(uint16(rcode))
	return opt
}

// putOPT also says why, where that fits.
func (w *writer) putOPT(opt *miekg.OPT, a *answer) {
	if opt == nil {
		return
	}
	if a.why != "" {
		const most = 200
		plain := opt.Option
		opt.Option = append(opt.Option, &miekg.EDNS0_EDE{InfoCode: a.code, ExtraText: a.why[:min(len(a.why), most)]})
		if w.put(opt, additionals) {
			return
		}
		opt.Option = plain
	}
	w.put(opt, additionals)
}
