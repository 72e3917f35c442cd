package supervisor

import (
	"cmp"

	"healthd/supervisor/core"
)

// turnQueue is whose turn it is among those that wait for the budget. The projects take turns, and in each of them the
// longest wait comes first: many containers of one project hold up one of another for a single turn. A project that
// comes, and one that has had its turn, goes behind the others.
type turnQueue struct {
	projects map[string]*project // in which containers wait
	heads    entryHeap           // the first of each; the project whose turn is next comes first
	turns    uint64              // so far
}

// project is the containers of a project that wait for the budget.
type project struct {
	name    string
	turn    uint64    // number of its turn
	waiting entryHeap // longest wait first
	head    *entry    // the first of them, which is in turnQueue.heads
}

func newTurnQueue() turnQueue {
	return turnQueue{projects: make(map[string]*project), heads: entryHeap{
		less:  func(a, b *entry) bool { return a.place.project.turn < b.place.project.turn },
		place: func(e *entry) *int { return &e.place.heads },
	}}
}

// projectOf returns the project of a container: Compose's, else its group is one.
func projectOf(e *entry) string { return cmp.Or(core.ProjectOf(e.container.Labels), e.groupKey) }

func (q *turnQueue) first() *entry { return q.heads.first() }

func (q *turnQueue) put(e *entry) {
	name := projectOf(e)
	if p := e.place.project; p != nil && p.name == name {
		return
	}
	q.remove(e)
	p := q.projects[name]
	if p == nil {
		q.turns++
		p = &project{name: name, turn: q.turns, waiting: entryHeap{
			less: longestWait, place: func(e *entry) *int { return &e.place.inOwn },
		}}
		q.projects[name] = p
	}
	e.place.project = p
	p.waiting.put(e)
	q.settle(p)
}

func (q *turnQueue) remove(e *entry) {
	p := e.place.project
	if p == nil {
		return
	}
	q.heads.remove(e)
	p.waiting.remove(e)
	e.place.project = nil
	if p.head == e {
		p.head = nil
	}
	q.settle(p)
}

// use notes that the project has its turn now.
func (q *turnQueue) use(name string) {
	if p := q.projects[name]; p != nil {
		q.turns++
		p.turn = q.turns
		q.settle(p)
	}
}

// settle takes in that the first of a project, or its turn, has changed.
func (q *turnQueue) settle(p *project) {
	first := p.waiting.first()
	if p.head != nil && p.head != first {
		q.heads.remove(p.head)
	}
	if p.head = first; first == nil {
		delete(q.projects, p.name)
		return
	}
	q.heads.put(first)
}

// isNext says whether the next turn is that of e, which may not be in the queue yet. One that waited for a place of
// the fleet meanwhile has had its turn: it is before those that have waited less.
func (q *turnQueue) isNext(e *entry) bool {
	first := q.first()
	if first == nil || first == e {
		return true
	}
	earlier := e.place.began > 0 && e.place.began < first.place.began
	return earlier && (e.place.stage == wantsPlace || first.place.project.name == projectOf(e))
}

func longestWait(a, b *entry) bool { return a.place.began < b.place.began }
