package api

import "net/http"

// Daemon has what concerns the daemon and its host, not a single container.
type Daemon struct {
	Warnings []string `json:"warnings"`
}

func (a *API) daemon(w http.ResponseWriter, _ *http.Request) {
	d := Daemon{Warnings: []string{}}
	if a.warnings != nil {
		d.Warnings = append(d.Warnings, a.warnings()...)
	}
	a.json(w, http.StatusOK, d)
}
