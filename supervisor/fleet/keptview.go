package fleet

import (
	"context"
	"encoding/json"
	"time"

	"healthd/supervisor/statefile"
)

// What is known of others is written this often, and costs a fiftieth of a disk at most.
const (
	keepViewEvery = 5 * time.Second
	keepViewShare = 50
)

// keptView is what is kept of other hosts.
type keptView struct {
	Version  int        `json:"version"`
	Prefix   string     `json:"prefix"` // of the fleet that has them
	Revision int64      `json:"revision"`
	Keys     []keptKey  `json:"keys"`
	Gone     []keptGone `json:"gone,omitempty"` // hosts without a key
	values   []*entry   // what Keys are made of, in the goroutine that writes
}

type keptKey struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

type keptGone struct {
	Name  string    `json:"name"`
	State HostState `json:"state"`
	Since time.Time `json:"since"`
	Last  hostValue `json:"last"`
}

// keep copies what is to be kept: the view goes on changing, its entries do not.
func (v *view) keep() *keptView {
	k := &keptView{Version: keptVersion, Revision: v.seen}
	for _, e := range v.entries {
		k.values = append(k.values, e)
	}
	for _, h := range v.hosts {
		if h.state != HostLive {
			k.Gone = append(k.Gone, keptGone{h.name, h.state, h.since, h.last})
		}
	}
	return k
}

func (k *keptView) encode() {
	for _, e := range k.values {
		var value any = e.host
		if e.key.kind == memberKey {
			value = e.member
		}
		if text, err := encode(value); err == nil {
			k.Keys = append(k.Keys, keptKey{e.name, json.RawMessage(text)})
		}
	}
	k.values = nil
}

// restore shows what an earlier daemon knew last. All of it is as if seen before a break.
func (v *view) restore(k *keptView, now time.Time) *changes {
	return v.fold(now, func() {
		for _, g := range k.Gone {
			if checkHost(g.Name) == nil && g.Name != v.self && (g.State == HostLost || g.State == HostLeft) {
				v.hosts[g.Name] = &host{name: g.Name, state: g.State, since: g.Since, last: g.Last}
			}
		}
		for _, r := range k.Keys {
			v.put(&record{name: r.Key, value: r.Value})
		}
		v.seen = max(0, k.Revision)
		v.wrong.relist()
		v.wrong.isNew = false // somebody has written into the file
	})
}

// loadView reads what an earlier daemon knew of others in the fleet of a prefix; nil: nothing.
func loadView(file statefile.File, prefix string) (*keptView, error) {
	k := &keptView{}
	found, err := file.Read(k)
	if err != nil {
		return nil, file.SetAside(err)
	}
	if !found || k.Prefix != prefix {
		return nil, nil
	}
	return k, nil
}

// keepView writes the newest of what it gets until the channel is closed.
func (f *Fleet) keepView(ctx context.Context, file statefile.File, views <-chan *keptView) {
	for k := range views {
		began := time.Now()
		k.Prefix = f.config.Prefix
		k.encode()
		if err := file.Write(k); err != nil {
			f.fail(aboutKnown, failed, "cannot keep what is known of other hosts: "+err.Error())
		} else {
			f.mend(aboutKnown)
		}
		sleep(ctx, max(keepViewEvery, keepViewShare*time.Since(began)))
	}
}
