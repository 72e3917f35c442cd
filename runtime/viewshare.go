package runtime

// setNetworkOwner notes whose network c uses (nil: e is dropped). Events of the owner then
// make e be inspected, because they change its address and NetworkOwnerStartedAt.
func (v *view) setNetworkOwner(e *entry, c *Container) {
	before := ""
	if e.known != nil {
		before = e.known.NetworkOwner
	}
	if before != "" {
		delete(v.networkUsers[before], e.id)
		if len(v.networkUsers[before]) == 0 {
			delete(v.networkUsers, before)
		}
	}
	if c == nil || c.NetworkOwner == "" {
		return
	}
	if v.networkUsers[c.NetworkOwner] == nil {
		v.networkUsers[c.NetworkOwner] = map[string]struct{}{}
	}
	v.networkUsers[c.NetworkOwner][e.id] = struct{}{}
	if c.NetworkOwner != before && v.eventSeq != e.inspectSeq {
		// An event came during the inspection. It may have been the owner's, and e was
		// not yet known as a user of its network.
		v.requestInspection(e)
	}
}

// inspectNetworkUsers has the containers inspected that use the network of one, and those that
// use theirs in turn: an address comes from the last of such a chain. done are the ones before,
// because what an engine tells may be a circle.
func (v *view) inspectNetworkUsers(id string, done map[string]bool) {
	for user := range v.networkUsers[id] {
		if e := v.entries[user]; e != nil && !done[user] {
			done[user] = true
			v.requestInspection(e)
			v.inspectNetworkUsers(user, done)
		}
	}
}

// networkMatches says whether the list shows the owner of c's network as c does.
func (c *Container) networkMatches(all map[string]Summary) bool {
	if c.NetworkOwner == "" {
		return true
	}
	owner, listed := all[c.NetworkOwner]
	switch {
	case !listed || c.NetworkOwnerGone:
		return !listed && c.NetworkOwnerGone
	case !owner.State.Alive() || c.NetworkOwnerStartedAt.IsZero():
		return !owner.State.Alive() && c.NetworkOwnerStartedAt.IsZero()
	}
	return owner.LatestChange.IsZero() || !c.NetworkOwnerStartedAt.Before(owner.EarliestChange) && !c.NetworkOwnerStartedAt.After(owner.LatestChange)
}
