package api

import (
	"net/http"
	"time"

	"healthd/supervisor/core"
)

// named answers with the containers that a name stands for: a container's, a service's or a project's.
func (a *API) named(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	views, err := a.board.Select(name)
	if s := a.findUnseen(name); err != nil && s != nil {
		a.json(w, http.StatusOK, []Status{*s})
		return
	}
	if err != nil {
		a.failRequest(w, err, name)
		return
	}
	a.listStatuses(w, views)
}

func (a *API) containers(w http.ResponseWriter, _ *http.Request) {
	a.listStatuses(w, a.board.Views(), a.unseen()...)
}

func (a *API) listStatuses(w http.ResponseWriter, views []*core.View, others ...Status) {
	now := time.Now()
	jsonList(a, w, func(yield func(Status) bool) {
		for _, v := range views {
			if !yield(newStatus(v, now)) {
				return
			}
		}
		for _, s := range others {
			if !yield(s) {
				return
			}
		}
	})
}
