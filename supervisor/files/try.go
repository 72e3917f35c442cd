package files

import "healthd/supervisor"

// Try renders a template as it would be on an empty host and on one with services of every kind, so that a mistake shows
// before there are any. covers says which services the file has.
func (t *Template) Try(covers func(service string) bool) error {
	for _, host := range [][]supervisor.Service{nil, sampleHost()} {
		if _, err := t.render(snapshotOf(host, covers, nil)); err != nil {
			return err
		}
	}
	// With patterns that fit none of these, all of them are tried again: the template shall see a member.
	everything := func(string) bool { return true }
	_, err := t.render(snapshotOf(sampleHost(), everything, nil))
	return err
}

// sampleHost has services with none, one and many members, IPv6 and IPv4, of a project and of none, ready, draining and
// neither, on this host and another.
func sampleHost() []supervisor.Service {
	ready := func(container, address string, port int) supervisor.Endpoint {
		return supervisor.Endpoint{Container: container, ID: container, Address: address, Port: port, Ready: true}
	}
	draining := supervisor.Endpoint{Container: "shop-web-4", ID: "shop-web-4", Address: "172.18.0.5", Port: 8080, Draining: true}
	failed := supervisor.Endpoint{Container: "shop-web-3", ID: "shop-web-3", Address: "172.18.0.4", Port: 8080}
	remote := supervisor.Endpoint{Container: "h2:shop-web-1", Host: "h2", ID: "h2/shop-web-1", Address: "192.168.0.2", Port: 32768, Ready: true}
	return []supervisor.Service{
		{Name: "blog/api", Endpoints: []supervisor.Endpoint{ready("blog-api-1", "fd00::2", 8080)}},
		{Name: "db", Endpoints: []supervisor.Endpoint{{Container: "db", ID: "db"}}},
		{Name: "shop/web", Endpoints: []supervisor.Endpoint{ready("shop-web-1", "172.18.0.2", 8080), ready("shop-web-2", "172.18.0.3", 8080), failed, draining, remote}},
		{Name: "shop/worker", Endpoints: []supervisor.Endpoint{{Container: "shop-worker-1", ID: "shop-worker-1", Address: "172.18.0.6", Port: 9000}}},
	}
}
