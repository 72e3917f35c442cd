package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/api"
)

// writeFleet writes that etcd is away, if it is, and then the tables of hosts and services, and of members if the form
// is wide. What is no row goes to beside.
func writeFleet(w, beside io.Writer, v *api.FleetView, f statusForm, colours bool, columns int, now time.Time) error {
	if !v.Connected {
		text := awayText(v, columns, now)
		if colours {
			text = red + strings.TrimSuffix(text, "\n") + plain + "\n"
		}
		if _, err := io.WriteString(beside, text); err != nil {
			return err
		}
	}
	wide := f.output == asWide
	tables := []*table{hostTable(v, f, now), serviceTable(v, wide, columns)}
	if wide {
		tables = append(tables, memberTable(v))
	}
	text := ""
	for i, t := range tables {
		if t.bare, t.colours = f.noHeaders, colours; !wide {
			t.width = columns
		}
		if len(t.rows) == 0 {
			continue
		}
		if i > 0 && text != "" {
			text += "\n"
		}
		text += t.String()
	}
	_, err := io.WriteString(w, text)
	return err
}

func awayText(v *api.FleetView, columns int, now time.Time) string {
	text := line(v.AwayText(now)) + ": members of other hosts are shown as last known"
	return strings.Join(wrap(text, columns-2), "\n  ") + "\n"
}

func hostTable(v *api.FleetView, f statusForm, now time.Time) *table {
	const address, version = 3, 7
	wide := f.output == asWide
	t := &table{header: []string{"HOST", "STATE", "SINCE", "ADDRESS", "READY", "DRAINING", "DOWN", "VERSION"}}
	if wide {
		t.header = append(t.header, "BALANCER")
	} else {
		t.flexible, t.drop = []flexible{{column: version, least: 8}, {column: 0, least: 12}, {column: address, least: 10}}, []int{version}
	}
	for _, h := range v.Hosts {
		name, colour, since := line(h.Name), "", "-"
		if h.Name == v.Host && !f.noHeaders { // a program counts columns
			name += " (this host)"
		}
		if h.State == api.FleetHostLost {
			colour = red
		}
		if !h.Since.IsZero() {
			since = formatAge(now.Sub(h.Since))
		}
		row := []cell{
			{name, colour}, hostState(h.State), {since, colour}, {text: orDash(h.Address)},
			{text: fmt.Sprint(h.Ready)}, {text: fmt.Sprint(h.Draining)}, {text: fmt.Sprint(h.Down)}, {text: orDash(h.Version)},
		}
		if h.Draining > 0 {
			row[5].colour = yellow
		}
		if h.Down > 0 {
			row[6].colour = red
		}
		if wide {
			balancer := "-"
			if h.Balancer {
				balancer = "yes"
			}
			row = append(row, cell{text: balancer})
		}
		t.add(row...)
	}
	return t
}

func hostState(state string) cell {
	switch state {
	case api.FleetHostLive:
		return cell{state, green}
	case api.FleetHostLost:
		return cell{state, red}
	}
	return cell{text: orDash(state)}
}

func serviceTable(v *api.FleetView, wide bool, columns int) *table {
	const hosts, held = 3, 4
	t := &table{header: []string{"SERVICE", "READY", "TOTAL", "HOSTS", "HELD"}}
	if wide {
		columns = unlimited
	} else {
		t.flexible = []flexible{{column: held, least: 14, wraps: true}, {column: hosts, least: 14, wraps: true}, {column: 0, least: 12}}
	}
	for _, s := range serviceRows(v) {
		ready := cell{fmt.Sprint(s.ready), green}
		switch {
		case s.total == 0:
			ready.colour = ""
		case s.ready == 0:
			ready.colour = red
		case s.ready < s.total:
			ready.colour = yellow
		}
		t.add(cell{text: line(s.name)}, ready, cell{text: fmt.Sprint(s.total)}, cell{text: orDash(list(upTo(s.hosts, columns, "more")))}, holdCell(s.hold))
	}
	return t
}

// holdCell says who holds a service, and for how long. Its begin is by the clock of another host.
func holdCell(h *api.FleetHold) cell {
	if h == nil {
		return cell{text: "-"}
	}
	text := "by " + orDash(h.By)
	if !h.Since.IsZero() {
		text += " since " + formatTime(h.Since)
	}
	if h.For != "" {
		text += " for " + line(h.For)
	}
	return cell{text, yellow}
}

func memberTable(v *api.FleetView) *table {
	t := &table{header: []string{"SERVICE", "HOST", "CONTAINER", "STATE", "ADDRESS", "REASON"}}
	colours := map[string]string{supervisor.MemberReady: green, supervisor.MemberDraining: yellow, supervisor.MemberDown: red}
	for _, m := range v.Members {
		address := line(m.Address)
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		if m.Port > 0 {
			address += fmt.Sprint(":", m.Port)
		}
		t.add(cell{text: orDash(m.Service)}, cell{text: orDash(m.Host)}, cell{text: orDash(m.Container)}, cell{orDash(m.State), colours[m.State]}, cell{text: orDash(address)}, cell{text: orDash(m.Reason)})
	}
	return t
}
