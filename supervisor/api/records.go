package api

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	shellquote "github.com/kballard/go-shellquote"

	"healthd/runtime"
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

// TimelineRecord tells of a flight record, and how to see it. What is in the record may be secret: it is not here.
type TimelineRecord struct {
	Run     int       `json:"run"`
	Time    time.Time `json:"time"`
	Cause   string    `json:"cause"`
	Command string    `json:"command"` // prints the record; for a shell on the host
}

// timelineRecords returns the records that are kept of a container, newest first.
func (a *API) timelineRecords(v *core.View) []TimelineRecord {
	all := []TimelineRecord{}
	if a.recorder == nil {
		return all
	}
	name := a.typedName(v.Container)
	for _, info := range a.recorder.Find(v, v.Container.Name) {
		all = append(all, TimelineRecord{info.Run, info.Time.UTC(), info.Cause, fmt.Sprintf("healthd why %s --run %d", name, info.Run)})
	}
	return all
}

// plainName is of names that no shell and no terminal takes for more.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,255}$`)

// typedName returns what people type for a container: its name, or its ID where somebody could have chosen the name
// for what a shell or terminal makes of it.
func (a *API) typedName(c *runtime.Container) string {
	if name := a.board.NameOf(c); plainName.MatchString(name) {
		return name
	}
	return shellquote.Join(runtime.IDPrefix + c.ID)
}
