package importer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// What Nomad's API says of a job, as nomad job run -output and nomad job inspect print it. It spells out defaults.
type (
	apiJob struct {
		Name, ID, Type             string
		Periodic, ParameterizedJob *struct{}
		Update                     *apiUpdate
		TaskGroups                 []apiGroup
	}
	apiGroup struct {
		Name          string
		Count         *float64
		RestartPolicy *apiRestart
		Update        *apiUpdate
		ShutdownDelay *float64
		Networks      []apiNetwork
		Services      []apiService
		Tasks         []apiTask
	}
	apiTask struct {
		Name, Driver, KillSignal string
		Config                   struct {
			Ports   []string
			PortMap json.RawMessage `json:"port_map"` // a list of tables, or one
		}
		Resources                  struct{ Networks []apiNetwork }
		KillTimeout, ShutdownDelay *float64
		Leader                     bool
		RestartPolicy              *apiRestart
		Services                   []apiService
		Lifecycle                  *struct {
			Hook    string
			Sidecar bool
		}
	}
	apiUpdate  struct{ MaxParallel *float64 }
	apiRestart struct {
		Attempts, Interval, Delay *float64
		Mode                      string
	}
	apiNetwork struct{ DynamicPorts, ReservedPorts []apiPort }
	apiPort    struct {
		Label     string
		To, Value float64
	}
	apiService struct {
		Name, PortLabel, TaskName, Provider string
		Connect                             *struct{}
		CheckRestart                        *apiCheckRestart
		Checks                              []apiCheck
	}
	apiCheckRestart struct {
		Limit, Grace   float64
		IgnoreWarnings bool
	}
	apiCheck struct {
		Name, Type, Path, Method, Protocol, PortLabel, TaskName, Command, GRPCService, InitialStatus, OnUpdate, Body, AddressMode, TLSServerName string
		Args                                                                                                                                     []string
		Header                                                                                                                                   map[string][]string
		Interval, Timeout                                                                                                                        float64
		Expose, TLSSkipVerify, GRPCUseTLS                                                                                                        bool
		SuccessBeforePassing, FailuresBeforeCritical, FailuresBeforeWarning                                                                      float64
		CheckRestart                                                                                                                             *apiCheckRestart
	}
)

// readNomadJSON returns the job of a file.
func readNomadJSON(f File) ([]*block, error) {
	var file struct {
		Job *apiJob
		apiJob
	}
	if err := json.Unmarshal(f.Data, &file); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("%s:%d: %w", f.Name, 1+bytes.Count(f.Data[:min(int(syntax.Offset), len(f.Data))], []byte("\n")), err)
		}
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	job := file.Job
	if job == nil {
		job = &file.apiJob
	}
	if len(job.TaskGroups) == 0 {
		return nil, fmt.Errorf("%s: is no job of Nomad's API: it has no TaskGroups", f.Name)
	}
	b := apiBlock(f.Name, "job", job.Name)
	b.setText("type", job.Type)
	b.update(job.Update)
	if job.Periodic != nil {
		b.add("periodic", "")
	}
	if job.ParameterizedJob != nil {
		b.add("parameterized", "")
	}
	for _, g := range job.TaskGroups {
		b.blocks = append(b.blocks, g.block(f.Name, job.Type))
	}
	return []*block{b}, nil
}

func apiBlock(file, kind, label string) *block {
	return &block{kind: kind, label: label, at: file, attrs: map[string]attr{}}
}

func (b *block) add(kind, label string) *block {
	sub := apiBlock(b.at, kind, label)
	b.blocks = append(b.blocks, sub)
	return sub
}

// set sets an attribute, unless the value is what Nomad sets by itself.
func (b *block) set(key string, value any, otherwise any) {
	if value != otherwise {
		b.attrs[key] = attr{at: b.at, value: value}
	}
}

func (b *block) setText(key, value string) { b.set(key, value, "") }

func (b *block) setDuration(key string, n *float64, otherwise string) {
	if n != nil {
		b.set(key, nanoseconds(*n), otherwise)
	}
}

func (b *block) update(u *apiUpdate) {
	if u != nil && u.MaxParallel != nil {
		b.add("update", "").set("max_parallel", *u.MaxParallel, 1.0)
	}
}

// restart leaves out the defaults of the job's type, if all are, unless they are there in place of others.
func (b *block) restart(r *apiRestart, kind string, inPlace bool) {
	if r == nil {
		return
	}
	attempts, interval := nomadRestarts(cmp.Or(kind, "service"))
	made := apiBlock(b.at, "restart", "")
	if r.Attempts != nil {
		made.set("attempts", *r.Attempts, nil)
	}
	made.setDuration("interval", r.Interval, "")
	made.setDuration("delay", r.Delay, "")
	made.setText("mode", r.Mode)
	if !inPlace && made.is("attempts", float64(attempts)) && made.is("interval", showDuration(interval)) && made.is("delay", showDuration(nomadDelay)) && (r.Mode == "fail" || r.Mode == "") {
		return
	}
	b.blocks = append(b.blocks, made)
}

// is says whether an attribute has that value, or is not set.
func (b *block) is(key string, value any) bool {
	a, set := b.attrs[key]
	return !set || a.value == value
}

func (g apiGroup) block(file, kind string) *block {
	b := apiBlock(file, "group", g.Name)
	if g.Count != nil {
		b.set("count", *g.Count, 1.0)
	}
	b.restart(g.RestartPolicy, kind, false)
	b.update(g.Update)
	b.setDuration("shutdown_delay", g.ShutdownDelay, "0s")
	networks(b, g.Networks)
	for _, s := range g.Services {
		s.add(b)
	}
	for _, t := range g.Tasks {
		t.add(b, kind)
	}
	return b
}

func networks(b *block, all []apiNetwork) {
	for _, n := range all {
		network := b.add("network", "")
		for _, p := range n.DynamicPorts {
			network.add("port", p.Label).set("to", p.To, 0.0)
		}
		for _, p := range n.ReservedPorts {
			port := network.add("port", p.Label)
			port.set("to", p.To, 0.0)
			port.set("static", p.Value, 0.0)
		}
	}
}

// portMap adds the numbers by label of an older job.
func portMap(config *block, text json.RawMessage) {
	var tables []map[string]any
	if json.Unmarshal(text, &tables) != nil {
		var one map[string]any
		if json.Unmarshal(text, &one) != nil {
			return
		}
		tables = append(tables, one)
	}
	for _, table := range tables {
		b := config.add("port_map", "")
		for label, n := range table {
			b.attrs[label] = attr{at: b.at, value: n}
		}
	}
}

func (t apiTask) add(to *block, kind string) {
	b := to.add("task", t.Name)
	b.setText("driver", t.Driver)
	b.setText("kill_signal", t.KillSignal)
	b.set("leader", t.Leader, false)
	b.setDuration("kill_timeout", t.KillTimeout, showDuration(nomadKillTimeout))
	b.setDuration("shutdown_delay", t.ShutdownDelay, "0s")
	b.restart(t.RestartPolicy, kind, len(to.all("restart")) > 0)
	config := b.add("config", "")
	config.attrs["ports"] = attr{at: b.at, value: t.Config.Ports}
	portMap(config, t.Config.PortMap)
	networks(b.add("resources", ""), t.Resources.Networks)
	if l := t.Lifecycle; l != nil {
		made := b.add("lifecycle", "")
		made.setText("hook", l.Hook)
		made.set("sidecar", l.Sidecar, false)
	}
	for _, s := range t.Services {
		s.add(b)
	}
}

func (s apiService) add(to *block) {
	b := to.add("service", "")
	b.setText("name", s.Name)
	b.setText("port", s.PortLabel)
	b.setText("task", s.TaskName)
	b.setText("provider", s.Provider)
	if s.Connect != nil {
		b.add("connect", "")
	}
	s.CheckRestart.add(b)
	for _, c := range s.Checks {
		c.add(b)
	}
}

func (r *apiCheckRestart) add(to *block) {
	if r == nil {
		return
	}
	b := to.add("check_restart", "")
	b.set("limit", r.Limit, nil)
	b.set("grace", nanoseconds(r.Grace), "0s")
	b.set("ignore_warnings", r.IgnoreWarnings, false)
}

func (c apiCheck) add(to *block) {
	b := to.add("check", "")
	for _, f := range []struct{ key, value string }{
		{"name", c.Name}, {"type", c.Type}, {"path", c.Path}, {"method", c.Method}, {"protocol", c.Protocol}, {"port", c.PortLabel}, {"task", c.TaskName}, {"command", c.Command},
		{"grpc_service", c.GRPCService}, {"initial_status", c.InitialStatus}, {"on_update", c.OnUpdate}, {"body", c.Body}, {"address_mode", c.AddressMode}, {"tls_server_name", c.TLSServerName},
	} {
		b.setText(f.key, f.value)
	}
	b.set("interval", nanoseconds(c.Interval), "0s")
	b.set("timeout", nanoseconds(c.Timeout), "0s")
	b.set("expose", c.Expose, false)
	b.set("tls_skip_verify", c.TLSSkipVerify, false)
	b.set("grpc_use_tls", c.GRPCUseTLS, false)
	b.set("success_before_passing", c.SuccessBeforePassing, 0.0)
	b.set("failures_before_critical", c.FailuresBeforeCritical, 0.0)
	b.set("failures_before_warning", c.FailuresBeforeWarning, 0.0)
	if len(c.Args) > 0 {
		b.attrs["args"] = attr{at: b.at, value: c.Args}
	}
	if len(c.Header) > 0 {
		b.attrs["header"] = attr{at: b.at, value: c.Header}
	}
	c.CheckRestart.add(b)
}
