package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"healthd/runtime"
	"healthd/supervisor/core"
)

func TestServices(t *testing.T) {
	view := func(name, service, address string, port int, set func(*core.State)) *core.View {
		v := published(name, service, false)
		v.Container.Address, v.Spec.Publish.Port = address, port
		v.State.Engine.State = runtime.Running
		set(&v.State)
		return v
	}
	ready := func(s *core.State) { s.Conditions.Ready.Status, s.Conditions.ContainerReady.Status = true, true }
	b := NewBoard(nil,
		view("shop-web-2", "shop/web", "10.0.0.2", 80, func(s *core.State) { s.Action.Stopping = core.ByLiveness }),
		view("shop-web-1", "shop/web", "10.0.0.1", 80, ready),
		view("shop-web-3", "shop/web", "fd00::3", 80, func(*core.State) {}),
		owned(view("db-1", "db", "10.0.0.9", 0, ready)),
		view("db-2", "db", "", 0, ready),
		view("none", "", "10.0.0.8", 80, ready))
	const want = `db, named by a file: db-1=10.0.0.9:0 ready, unreachable; db-2=:0 ready, unreachable
shop/web (shop): shop-web-1=10.0.0.1:80 ready; shop-web-2=10.0.0.2:80 draining; shop-web-3=fd00::3:80
`
	if got := servicesText(b.Services()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func owned(v *core.View) *core.View {
	v.Spec.Publish.Owned = true
	return v
}

// What nobody can send traffic to is told to nobody, whatever an engine calls an address.
func TestWhereTrafficGoes(t *testing.T) {
	for _, tt := range []struct {
		address string
		port    int
		want    string
	}{
		{"10.0.0.1", 80, "10.0.0.1:80"}, {"fd00::1", 80, "[fd00::1]:80"}, {"::ffff:10.0.0.1", 80, "10.0.0.1:80"},
		{"10.0.0.1", 0, ""}, {"10.0.0.1", -1, ""}, {"10.0.0.1", 65536, ""},
		{"", 80, ""}, {"fe80::1%eth0", 80, ""}, {"host", 80, ""}, {"10.0.0.1; evil", 80, ""},
	} {
		e := Endpoint{Address: tt.address, Port: tt.port}
		at, ok := e.At()
		got := ""
		if ok {
			got = at.String()
		}
		if got != tt.want {
			t.Errorf("%s, port %d: got %q, want %q", tt.address, tt.port, got, tt.want)
		}
	}
}

func servicesText(all []Service) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.Name)
		if p := Project(s.Name); p != "" {
			b.WriteString(" (" + p + ")")
		}
		if s.Owned {
			b.WriteString(", named by a file")
		}
		for i, e := range s.Endpoints {
			fmt.Fprintf(&b, "%s%s=%s:%d", map[bool]string{true: ": ", false: "; "}[i == 0], e.Container, e.Address, e.Port)
			_, reachable := e.At()
			for _, w := range []struct {
				is   bool
				text string
			}{{e.Ready, " ready"}, {e.Draining, " draining"}, {!reachable, ", unreachable"}} {
				if w.is {
					b.WriteString(w.text)
				}
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestPlainName(t *testing.T) {
	for service, want := range map[string]string{
		"web": "web", "shop/web": "shop--web", "shop--web": "shop-_-web", "shop-web": "shop-web", "shop-/web": "shop-_--web", "shop-_web": "shop-__web",
		"a.b/c_d": "a.b--c_d", "web-": "web-", "": "",
	} {
		if got := PlainName(service); got != want {
			t.Errorf("%s became %s, want %s", service, got, want)
		}
	}
}

// No two services share a name: it can be read back.
func FuzzPlainName(f *testing.F) {
	for _, s := range []string{"shop/web", "shop--web", "shop-/web", "a-_b", "a---/b", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, service string) {
		plain := PlainName(service)
		if strings.Contains(plain, "/") {
			t.Fatalf("%q became %q", service, plain)
		}
		read := []byte{}
		for i := 0; i < len(plain); i++ {
			c := plain[i]
			if next := plain[min(i+1, len(plain)-1)]; c == '-' && i+1 < len(plain) && (next == '-' || next == '_') {
				i++
				if next == '-' {
					c = '/'
				}
			}
			read = append(read, c)
		}
		if string(read) != service {
			t.Errorf("%q became %q, which is read as %q", service, plain, read)
		}
	})
}
