package api

import (
	"context"
	"net/http"
	"time"
)

// Unsupervised are the containers that healthd leaves alone.
type Unsupervised struct {
	Containers []Bystander `json:"containers"`
	Away       []string    `json:"away"`  // why an engine could not be asked
	Notes      []string    `json:"notes"` // what else may be missing
}

// Bystander is a container that healthd leaves alone.
type Bystander struct {
	Name      string   `json:"name"`
	ID        string   `json:"id"`
	Runtime   string   `json:"runtime"`
	Namespace string   `json:"namespace,omitempty"`
	Image     string   `json:"image"`
	State     string   `json:"state"` // as the engine calls it
	Why       []string `json:"why"`
}

// unsupervised asks the engines: nothing is kept of containers that healthd leaves alone. One request at
// a time, as each costs an engine a list.
func (a *API) unsupervised(w http.ResponseWriter, r *http.Request) {
	const timeout = 20 * time.Second
	select {
	case a.listing <- struct{}{}:
		defer func() { <-a.listing }()
	default:
		a.busy(w, "the engines are being asked already: ask again later")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * timeout))
	synced := a.board.Synced() // before the look
	var u Unsupervised
	if a.bystanders != nil {
		u = a.bystanders(ctx)
	}
	// No list is null, also for readers that cannot take null for an empty one.
	u.Containers, u.Away = append([]Bystander{}, u.Containers...), append([]string{}, u.Away...)
	if u.Notes = []string{}; !synced {
		u.Notes = append(u.Notes, "not all containers are known yet")
	}
	a.json(w, http.StatusOK, u)
}
