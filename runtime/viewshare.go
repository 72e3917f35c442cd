package runtime

// share notes whose network e shares from now on; its address and NetworkSince then
// change with events of the other one.
func (v *view) share(e *entry, c *Container) {
	before := ""
	if e.known != nil {
		before = e.known.NetworkOf
	}
	if before != "" {
		delete(v.sharing[before], e.id)
		if len(v.sharing[before]) == 0 {
			delete(v.sharing, before)
		}
	}
	if c == nil || c.NetworkOf == "" {
		return
	}
	if v.sharing[c.NetworkOf] == nil {
		v.sharing[c.NetworkOf] = map[string]struct{}{}
	}
	v.sharing[c.NetworkOf][e.id] = struct{}{}
	if c.NetworkOf != before && v.seq != e.asked {
		// Some event came since c was asked for, perhaps one of the other container,
		// when nobody knew yet that e minds it.
		v.dirty(e)
	}
}

// networkFits says whether a list gives no reason to doubt what c says of the
// container whose network it shares.
func (c *Container) networkFits(all map[string]Summary) bool {
	if c.NetworkOf == "" {
		return true
	}
	other, listed := all[c.NetworkOf]
	switch {
	case !listed || c.NetworkGone:
		return !listed && c.NetworkGone
	case !other.State.Alive() || c.NetworkSince.IsZero():
		return !other.State.Alive() && c.NetworkSince.IsZero()
	}
	return other.Until.IsZero() || !c.NetworkSince.Before(other.Since) && !c.NetworkSince.After(other.Until)
}
