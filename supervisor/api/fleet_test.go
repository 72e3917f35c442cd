package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"healthd/supervisor"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fleet is a Fleet that does what its fields say.
type fleet struct {
	view   FleetView
	hold   func(ctx context.Context, service string, d time.Duration) error
	resume func(service string) error
}

func (f *fleet) View() FleetView { return f.view }

func (f *fleet) Hold(ctx context.Context, service string, d time.Duration) error {
	return f.hold(ctx, service, d)
}

func (f *fleet) Resume(_ context.Context, service string) error { return f.resume(service) }

// theFleet has a host of each state, and a held service.
func theFleet() *fleet {
	return &fleet{
		view: FleetView{
			Host: "h1", Connected: true, Since: at(1), Endpoints: []string{"https://10.0.0.1:2379"},
			Hosts: []FleetHost{
				{Name: "h1", State: FleetHostLive, Since: at(2), Address: "10.0.0.5", Version: "0.1.0", Balancer: true, Ready: 1},
				{Name: "h2", State: FleetHostLost, Since: at(9), Address: "10.0.0.6", Version: "0.1.0"},
				{Name: "h3", State: FleetHostLeft, Since: at(8)},
				{Name: "h4", State: FleetHostLive, Since: at(3), Draining: 1, Down: 1},
			},
			Members: []FleetMember{
				{Service: "db", Host: "h4", Container: "db-1", State: supervisor.MemberDown, Reason: "ReadinessFailed"},
				{Service: "shop/web", Host: "h1", Container: "shop-web-1", Address: "10.0.0.5", Port: 32768, State: supervisor.MemberReady},
				{Service: "shop/web", Host: "h4", Container: "shop-web-1", Address: "10.0.0.8", Port: 8080, State: supervisor.MemberDraining, Reason: "Draining"},
			},
			Holds:     []FleetHold{{Service: "shop/web", By: "h4", Since: at(5), For: "1h0m0s"}, {Service: "gone", By: "h1", Since: at(6)}},
			WrongKeys: 2, Problems: []string{"two daemons are called h3"},
		},
		hold:   func(context.Context, string, time.Duration) error { return nil },
		resume: func(string) error { return nil },
	}
}

func withFleet(f *fleet) *API {
	a, _, _ := newAPI()
	a.fleet = f
	return a
}

func (s *answers) ofFleets(t *testing.T) {
	t.Helper()
	alone, _, _ := newAPI()
	s.want(t, alone.ReadOnly(), 404, http.MethodGet, "/v1/fleet", "")
	s.want(t, withFleet(theFleet()).ReadOnly(), 200, http.MethodGet, "/v1/fleet", "")
	s.want(t, withFleet(theFleet()).Control(), 200, http.MethodGet, "/v1/fleet?members=false", "")
	s.want(t, withFleet(theFleet()).ReadOnly(), 400, http.MethodGet, "/v1/fleet?members=x", "")
	s.want(t, withFleet(&fleet{}).ReadOnly(), 200, http.MethodGet, "/v1/fleet", "")
	for _, what := range []string{"hold", "resume"} {
		for err, status := range map[error]int{nil: 200, errors.New("permission denied"): 503, context.DeadlineExceeded: 504} {
			f := theFleet()
			f.hold, f.resume = func(context.Context, string, time.Duration) error { return err }, func(string) error { return err }
			for _, service := range []string{"db", "shop/web"} {
				s.want(t, withFleet(f).Control(), status, http.MethodPost, "/v1/fleet/services/"+service+"/"+what, "")
			}
		}
		for _, service := range []string{"web", "shop/none"} {
			s.want(t, withFleet(theFleet()).Control(), 404, http.MethodPost, "/v1/fleet/services/"+service+"/"+what, "")
			s.want(t, alone.Control(), 404, http.MethodPost, "/v1/fleet/services/"+service+"/"+what, "")
		}
	}
	f := theFleet()
	f.resume = func(service string) error { return fmt.Errorf("cannot resume %s: %w", service, ErrNoFleetHold) }
	for _, service := range []string{"db", "shop/web"} {
		s.want(t, withFleet(f).Control(), 409, http.MethodPost, "/v1/fleet/services/"+service+"/resume", "")
		s.want(t, withFleet(f).Control(), 400, http.MethodPost, "/v1/fleet/services/"+service+"/hold?for=x", "")
	}
}

func TestFleetView(t *testing.T) {
	w := get(t, withFleet(theFleet()).ReadOnly(), "/v1/fleet")
	golden(t, "fleet.json", indented(t, w.Body.Bytes()))
	brief := get(t, withFleet(theFleet()).ReadOnly(), "/v1/fleet?members=false")
	var v FleetView
	if err := json.Unmarshal(brief.Body.Bytes(), &v); err != nil || len(v.Members) != 0 || len(v.Hosts) != 4 {
		t.Errorf("without members: %s, %v", brief.Body, err)
	}
	const nothing = `{"host":"","connected":false,"since":"0001-01-01T00:00:00Z","endpoints":[],"hosts":[],"members":[],"holds":[],"wrongKeys":0,"problems":[]}` + "\n"
	if got := get(t, withFleet(&fleet{}).ReadOnly(), "/v1/fleet").Body.String(); got != nothing {
		t.Errorf("of an empty fleet: %s", got)
	}
}

// The page learns from the overview whether there is a fleet to ask for.
func TestOverviewTellsOfAFleet(t *testing.T) {
	alone, _, _ := newAPI(readyContainer("web-1"))
	if got, ok := get(t, alone.ReadOnly(), "/v1/overview").Header()[fleetHeader]; ok {
		t.Errorf("without a fleet: %q", got)
	}
	if got := get(t, withFleet(theFleet()).ReadOnly(), "/v1/overview").Header().Get(fleetHeader); got != "true" {
		t.Errorf("with a fleet: %q", got)
	}
	if w := get(t, alone.ReadOnly(), "/v1/fleet"); !strings.Contains(w.Body.String(), "write [fleet] into its configuration") {
		t.Errorf("the fleet of a host that is in none: %s", w.Body)
	}
}

func TestFleetHold(t *testing.T) {
	f := theFleet()
	asked := ""
	f.hold = func(_ context.Context, service string, d time.Duration) error {
		asked = fmt.Sprint("hold ", service, " ", d)
		return nil
	}
	f.resume = func(service string) error { asked = "resume " + service; return nil }
	for _, tt := range []struct{ path, asked, answer string }{
		{"shop/web/hold", "hold shop/web 0s", `{"service":"shop/web","held":true}`},
		{"shop/web/hold?for=90m", "hold shop/web 1h30m0s", `{"service":"shop/web","held":true,"for":"1h30m0s"}`},
		{"shop%2Fweb/hold", "hold shop/web 0s", `{"service":"shop/web","held":true}`},
		{"db/resume", "resume db", `{"service":"db","held":false}`},
		{"gone/resume", "resume gone", `{"service":"gone","held":false}`},
		{"web/hold", "", `{"error":"no host of the fleet publishes a service \"web\""}`},
		{"db/hold?for=0", "", `{"error":"for must be more than 0s, it is \"0\""}`},
		{"db/hold?for=", "", `{"error":"for must be a duration such as 10m, it is \"\""}`},
	} {
		asked = ""
		w := controlRequest(t, withFleet(f), http.MethodPost, "/v1/fleet/services/"+tt.path)
		if asked != tt.asked || w.Body.String() != tt.answer+"\n" {
			t.Errorf("%s: asked %q, %d %s, want %q, %s", tt.path, asked, w.Code, w.Body, tt.asked, tt.answer)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		if w := controlRequest(t, withFleet(f), method, "/v1/fleet/services/db/hold"); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for _, what := range []string{"hold", "resume"} {
		if w := get(t, withFleet(f).ReadOnly(), "/v1/fleet/services/db/"+what); w.Code != http.StatusNotFound {
			t.Errorf("%s on the network: %d %s", what, w.Code, w.Body)
		}
	}
}

// While etcd is away a request says since when and why, and asks nobody. An etcd that hangs is not waited for.
func TestFleetHoldWithoutEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := theFleet()
		f.hold = func(ctx context.Context, _ string, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }
		f.resume = func(string) error { t.Error("etcd was asked"); return nil }
		began := time.Now()
		if w := controlRequest(t, withFleet(f), http.MethodPost, "/v1/fleet/services/db/hold"); w.Code != http.StatusGatewayTimeout || time.Since(began) != fleetTimeout {
			t.Errorf("an etcd that hangs: %d %s after %v", w.Code, w.Body, time.Since(began))
		}
		f.view.Connected, f.view.Since, f.view.Error = false, time.Now().Add(-3*time.Minute-200*time.Millisecond), "no leader"
		for _, service := range []string{"db", "nobody"} {
			w := controlRequest(t, withFleet(f), http.MethodPost, "/v1/fleet/services/"+service+"/resume")
			const want = `{"error":"etcd cannot be reached for 3m: no leader"}` + "\n"
			if w.Code != http.StatusServiceUnavailable || w.Body.String() != want {
				t.Errorf("%s: %d %s", service, w.Code, w.Body)
			}
		}
		for ago, want := range map[time.Duration]string{-time.Second: "0s", 10*time.Second + 1: "10s", time.Hour: "1h0m", 70*time.Minute + time.Second: "1h10m"} {
			if got := span(ago); got != want {
				t.Errorf("%v: %s, want %s", ago, got, want)
			}
		}
		f.view.Since, f.view.Error = time.Time{}, ""
		if got := f.view.AwayText(time.Now()); got != "etcd cannot be reached" {
			t.Error(got)
		}
	})
}

// What is in etcd is text.
func TestHostileFleet(t *testing.T) {
	const text = "<script>alert(1)</script>\n\x1b[2J"
	f := &fleet{view: FleetView{Host: text, Error: text, Problems: []string{text}, Hosts: []FleetHost{{Name: text, State: FleetHostLive, Address: text, Version: text}}, Holds: []FleetHold{{Service: text, By: text}}}}
	w := get(t, withFleet(f).ReadOnly(), "/v1/fleet")
	if w.Code != 200 || strings.ContainsAny(w.Body.String(), "<\x1b") || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}
