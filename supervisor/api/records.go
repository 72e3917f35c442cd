package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// Records is what the API needs of the flight recorder.
type Records interface {
	// Find returns the records of a container, newest first: of v, or, where that is nil, of one of that
	// name that is gone.
	Find(v *core.View, name string) []supervisor.RecordInfo
	// Read returns one of these.
	Read(supervisor.RecordInfo) (*supervisor.FlightRecord, error)
}

// recordList answers with the records that are kept of a container.
func (a *API) recordList(w http.ResponseWriter, r *http.Request) {
	if infos, ok := a.findRecords(w, r); ok {
		a.json(w, http.StatusOK, infos)
	}
}

// flightRecord answers with one record.
func (a *API) flightRecord(w http.ResponseWriter, r *http.Request) {
	run, err := strconv.Atoi(r.PathValue("run"))
	if err != nil || run < 1 {
		a.fail(w, http.StatusBadRequest, fmt.Sprintf("run must be the number of a run, it is %q", r.PathValue("run")))
		return
	}
	infos, ok := a.findRecords(w, r)
	if !ok {
		return
	}
	i := slices.IndexFunc(infos, func(info supervisor.RecordInfo) bool { return info.Run == run })
	if i < 0 {
		a.fail(w, http.StatusNotFound, fmt.Sprintf("there is no flight record of run %d", run))
		return
	}
	record, err := a.recorder.Read(infos[i])
	if err != nil {
		a.fail(w, http.StatusNotFound, fmt.Sprintf("there is no flight record of run %d any more: %v", run, err))
		return
	}
	a.json(w, http.StatusOK, record)
}

// findRecords returns the records of the container that is asked for, newest first, or answers that
// there is none.
func (a *API) findRecords(w http.ResponseWriter, r *http.Request) (infos []supervisor.RecordInfo, ok bool) {
	name := r.PathValue("name")
	v, err := a.board.Find(name)
	infos = []supervisor.RecordInfo{}
	if a.recorder != nil && (err == nil || errors.Is(err, supervisor.ErrUnknownContainer)) {
		infos = append(infos, a.recorder.Find(v, name)...)
	}
	if err != nil && len(infos) == 0 {
		a.failRequest(w, err, name)
		return nil, false
	}
	return infos, true
}
