package files

import (
	"text/template"
	"text/template/parse"
)

// The functions that guard calls. No template names them: these are no identifiers for whoever reads a template.
const (
	stepFunction  = "_healthd_step"
	enterFunction = "_healthd_enter"
	leaveFunction = "_healthd_leave"
)

// guard has the body of each range call step, and each template call enter at its begin and leave at its end. A template
// ends at its end or with an error.
func guard(all *template.Template) {
	for _, t := range all.Templates() {
		if t.Tree == nil || t.Tree.Root == nil {
			continue
		}
		guardLists(t.Tree, t.Tree.Root)
		call := func(name string) parse.Node { return callOf(t.Tree, name, t.Tree.Root.Pos) }
		nodes := append([]parse.Node{call(enterFunction)}, t.Tree.Root.Nodes...)
		t.Tree.Root.Nodes = append(nodes, call(leaveFunction))
	}
}

// guardLists guards what is inside a list.
func guardLists(tree *parse.Tree, list *parse.ListNode) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.RangeNode:
			guardLists(tree, n.List)
			guardLists(tree, n.ElseList)
			n.List.Nodes = append([]parse.Node{callOf(tree, stepFunction, n.Pos)}, n.List.Nodes...)
		case *parse.IfNode:
			guardLists(tree, n.List)
			guardLists(tree, n.ElseList)
		case *parse.WithNode:
			guardLists(tree, n.List)
			guardLists(tree, n.ElseList)
		}
	}
}

// callOf returns {{NAME}}.
func callOf(tree *parse.Tree, name string, at parse.Pos) parse.Node {
	word := parse.NewIdentifier(name).SetTree(tree).SetPos(at)
	command := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: at, Args: []parse.Node{word}}
	pipe := &parse.PipeNode{NodeType: parse.NodePipe, Pos: at, Cmds: []*parse.CommandNode{command}}
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: at, Pipe: pipe}
}
