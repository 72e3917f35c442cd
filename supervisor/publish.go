package supervisor

// Publisher tells load balancers what the Board shows, and knows what they report. The
// loop calls its methods: none may block.
type Publisher interface {
	// Changed tells that the Board shows a change which matters to load balancers: a
	// container is new or gone, its readiness, run, address, name or spec has changed, or
	// its drain has begun or ended.
	Changed()
	// LastUp returns the backends in which the container of that ID is the last one that
	// takes traffic. It is empty when there are others, or when nothing is known.
	LastUp(id string) (where string)
}

// noPublisher is the Publisher when Config.Publisher is nil.
type noPublisher struct{}

func (noPublisher) Changed()             {}
func (noPublisher) LastUp(string) string { return "" }
