package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

const (
	maxValue  = 4 << 10 // bytes; a bigger one is not read
	maxReason = 64
)

// hostValue is what a host says of itself.
type hostValue struct {
	Instance   string `json:"instance"`         // of its state directory: two daemons of one name have two
	Daemon     string `json:"daemon,omitempty"` // another one with each start
	Version    string `json:"version,omitempty"`
	Advertise  string `json:"advertise,omitempty"`
	Balancer   bool   `json:"balancer,omitempty"` // it pushes to HAProxy
	Files      bool   `json:"files,omitempty"`    // it writes files whose readers know at once
	Leaving    bool   `json:"leaving,omitempty"`  // it is about to revoke its lease
	RuntimesUp bool   `json:"runtimesUp,omitempty"`
}

// The states of a member.
const (
	stateReady    = supervisor.MemberReady
	stateDraining = supervisor.MemberDraining
	stateDown     = supervisor.MemberDown
)

// What a draining member awaits.
const (
	awaitsWithdrawal = "withdrawal"
	awaitsDrain      = "drain"
)

// memberValue is what a host says of a container that it publishes.
type memberValue struct {
	Container string     `json:"container"`
	ID        string     `json:"id"`
	Run       int64      `json:"run"` // when it began, by its host's clock: a name, no time
	Address   string     `json:"address,omitempty"`
	Port      int        `json:"port,omitempty"`
	State     string     `json:"state"`
	Answers   bool       `json:"answers,omitempty"` // draining, and would be ready otherwise
	Awaits    string     `json:"awaits,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Backend   string     `json:"backend,omitempty"`
	Owned     bool       `json:"owned,omitempty"`
	Phase     core.Phase `json:"phase"`
	Group     string     `json:"group,omitempty"`
	Revision  uint64     `json:"revision"` // the last one: see bodyOf
}

// wordValue is what one host says to another of a run of its container.
type wordValue struct {
	Run       int64  `json:"run"`
	ID        string `json:"id"`
	Withdrawn bool   `json:"withdrawn,omitempty"` // nobody there is told to send new requests to it
	Drained   bool   `json:"drained,omitempty"`   // HAProxy there has none under way
	NotServed bool   `json:"notServed,omitempty"` // no HAProxy there has its backend
}

// placeValue says who holds a place.
type placeValue struct {
	Host     string `json:"host"`
	Instance string `json:"instance"`
	ID       string `json:"id"`
	Run      int64  `json:"run"`
}

// holdValue says who holds a service.
type holdValue struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
	For   string    `json:"for,omitempty"` // a duration; empty: until somebody ends it
}

// name tells the hold from others of its service.
func (v *holdValue) name() string { return v.By + " " + v.Since.UTC().Format(time.RFC3339) }

var instancePattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (v *hostValue) check() error {
	_, err := addressOf(v.Advertise, true) // nobody sends traffic there
	if v.Advertise == "" {
		err = nil
	}
	if !instancePattern.MatchString(v.Instance) {
		err = errors.Join(err, fmt.Errorf("%.40q is no instance", v.Instance))
	}
	return errors.Join(err, checkText("daemon", v.Daemon), checkText("version", v.Version))
}

// check says what is wrong with a member. local says that loopback addresses mean the same to everybody: the fleet is on one machine.
func (v *memberValue) check(local bool) error {
	var errs []error
	errs = append(errs, checkName("container", v.Container), checkName("container's ID", v.ID),
		checkText("reason", v.Reason), checkText("backend", v.Backend), checkText("group", v.Group))
	if v.Address != "" {
		ip, err := addressOf(v.Address, local)
		errs = append(errs, err)
		v.Address = ip.String()
	}
	if strings.Contains(v.ID, "/") { // HOST/ID has one
		errs = append(errs, fmt.Errorf("%.40q is no container's ID", v.ID))
	}
	if v.Port < 0 || v.Port > 65535 {
		errs = append(errs, fmt.Errorf("%d is no port", v.Port))
	}
	if !slices.Contains([]string{stateReady, stateDraining, stateDown}, v.State) {
		errs = append(errs, fmt.Errorf("%.40q is no state", v.State))
	}
	if !slices.Contains([]string{"", awaitsWithdrawal, awaitsDrain}, v.Awaits) {
		errs = append(errs, fmt.Errorf("%.40q is nothing to await", v.Awaits))
	}
	if !slices.Contains([]core.Phase{core.PhasePending, core.PhaseRunning, core.PhaseSucceeded, core.PhaseFailed, core.PhaseUnknown}, v.Phase) {
		errs = append(errs, fmt.Errorf("%.40q is no phase", v.Phase))
	}
	return errors.Join(errs...)
}

func (v *wordValue) check() error { return checkName("container's ID", v.ID) }

func (v *placeValue) check() error {
	return errors.Join(checkHost(v.Host), checkName("container's ID", v.ID))
}

func (v *holdValue) check() error {
	if d, err := time.ParseDuration(v.For); v.For != "" && (err != nil || d <= 0) {
		return fmt.Errorf("%.40q is no duration", v.For)
	}
	return checkName("host", v.By)
}

func checkText(what, text string) error {
	if len(text) > maxName || !printable(text) {
		return fmt.Errorf("%.40q is no %s", text, what)
	}
	return nil
}

// addressOf reads an address to which other hosts send traffic. One that means something else on each host would have
// them send it to themselves or to nobody.
func addressOf(text string, local bool) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.60q is no IP address", text)
	}
	ip = ip.Unmap()
	broadcast := ip == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if ip.Zone() != "" || ip.IsUnspecified() || ip.IsMulticast() || broadcast || ip.Is6() && ip.IsLinkLocalUnicast() || ip.IsLoopback() && !local {
		return netip.Addr{}, fmt.Errorf("%s is no address for other hosts", ip)
	}
	return ip, nil
}

var errTooLarge = fmt.Errorf("it has more than %d bytes", maxValue)

// decode reads a value into v. It looks at the size first.
func decode(data []byte, v any) error {
	if len(data) > maxValue {
		return errTooLarge
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("it is no value of healthd's: %w", err)
	}
	return nil
}

func decodeHost(data []byte) (v hostValue, err error) {
	if err = decode(data, &v); err == nil {
		err = v.check()
	}
	return v, err
}

func decodeMember(data []byte, k key, local bool) (v memberValue, err error) {
	if err = decode(data, &v); err == nil {
		err = v.check(local)
	}
	if err == nil && v.Container != k.container {
		err = fmt.Errorf("its container is %q", v.Container)
	}
	return v, err
}

func decodeWord(data []byte) (v wordValue, err error) {
	if err = decode(data, &v); err == nil {
		err = v.check()
	}
	return v, err
}

func decodePlace(data []byte) (v placeValue, err error) {
	if err = decode(data, &v); err == nil {
		err = v.check()
	}
	return v, err
}

func decodeHold(data []byte) (v holdValue, err error) {
	if err = decode(data, &v); err == nil {
		err = v.check()
	}
	return v, err
}

// encode writes a value. What it cannot keep below maxValue is an error.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(text) > maxValue {
		return "", errTooLarge
	}
	return string(text), nil
}

// encode writes a member whose names are as others accept them.
func (v memberValue) encode() (string, error) {
	v.Reason = cut(v.Reason, maxReason)
	if err := v.check(true); err != nil {
		return "", err
	}
	return encode(v)
}

// cut returns the first bytes of a text, and no half character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	text = text[:most]
	for i := 0; i < utf8.UTFMax && text != "" && !utf8.ValidString(text); i++ {
		text = text[:len(text)-1]
	}
	return text
}

var revisionPattern = regexp.MustCompile(`,"revision":[0-9]+}$`)

// bodyOf returns a value without the number that a member has more with each write: two that differ in nothing else are the same.
func bodyOf(value string) string {
	if i := revisionPattern.FindStringIndex(value); i != nil {
		return value[:i[0]] + "}"
	}
	return value
}

// withRevision is the other way.
func withRevision(body string, revision uint64) string {
	return fmt.Sprintf(`%s,"revision":%d}`, body[:len(body)-1], revision)
}
