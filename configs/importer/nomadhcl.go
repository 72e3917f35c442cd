package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

const (
	maxHCL       = 1 << 20 // bytes of a file
	maxNesting   = 200     // brackets, quotes and templates in each other
	maxOperators = 20_000  // in a file: the reader calls itself for each that follows another
	maxEvaluated = 4 << 10 // bytes of what an expression makes
	maxValues    = 8 << 20 // bytes of what all expressions of a file make
	localRounds  = 10      // locals that need each other
)

// hclFile is a job file that is being read.
type hclFile struct {
	name string
	text []byte
	vars map[string]cty.Value // var
	loc  map[string]cty.Value // local
	size int                  // bytes of all values so far
}

// readHCL returns the jobs of a file. Expressions are evaluated as far as the file itself tells: variables by
// their defaults, locals, the names of job, group and task, and a few functions.
func readHCL(f File) ([]*block, error) {
	if len(f.Data) > maxHCL {
		return nil, fmt.Errorf("%s: is longer than %d MiB", f.Name, maxHCL>>20)
	}
	if err := boundHCL(f); err != nil {
		return nil, err
	}
	parsed, problems := hclsyntax.ParseConfig(f.Data, f.Name, hcl.InitialPos)
	if problems.HasErrors() {
		return nil, hclError(f.Name, problems)
	}
	h := &hclFile{name: f.Name, text: f.Data, vars: map[string]cty.Value{}, loc: map[string]cty.Value{}}
	body := parsed.Body.(*hclsyntax.Body)
	h.variables(body)
	h.locals(body)
	var jobs []*block
	for _, b := range body.Blocks {
		if b.Type == "job" {
			job := h.block(b, nil)
			job.assumed = slices.Sorted(maps.Keys(h.vars))
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// boundHCL refuses what would take the reader too deep.
func boundHCL(f File) error {
	tokens, _ := hclsyntax.LexConfig(f.Data, f.Name, hcl.InitialPos)
	depth, operators := 0, 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
			operators++
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenIdent, hclsyntax.TokenNewline, hclsyntax.TokenComment, hclsyntax.TokenEqual, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenNumberLit, hclsyntax.TokenComma:
		default:
			operators++
		}
		if depth > maxNesting || operators > maxOperators {
			return fmt.Errorf("%s:%d: is too deep or too long for a job", f.Name, token.Range.Start.Line)
		}
	}
	return nil
}

func hclError(file string, problems hcl.Diagnostics) error {
	for _, p := range problems {
		if p.Severity == hcl.DiagError {
			line := 1
			if p.Subject != nil {
				line = p.Subject.Start.Line
			}
			return fmt.Errorf("%s:%d: %s: %s", file, line, p.Summary, p.Detail)
		}
	}
	return fmt.Errorf("%s: is no job", file)
}

// variables takes the defaults of the file's variables.
func (h *hclFile) variables(body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		if b.Type != "variable" || len(b.Labels) == 0 {
			continue
		}
		if a := b.Body.Attributes["default"]; a != nil {
			if v, ok := h.evaluate(a.Expr, nil); ok {
				h.vars[b.Labels[0]] = v
			}
		}
	}
}

// locals evaluates those of the file, in as many rounds as they need each other.
func (h *hclFile) locals(body *hclsyntax.Body) {
	for range localRounds {
		before := len(h.loc)
		for _, b := range body.Blocks {
			if b.Type != "locals" {
				continue
			}
			for name, a := range b.Body.Attributes {
				if _, known := h.loc[name]; known {
					continue
				}
				if v, ok := h.evaluate(a.Expr, nil); ok {
					h.loc[name] = v
				}
			}
		}
		if len(h.loc) == before {
			return
		}
	}
}

// block returns a block with all that it has. names are those of the job, group and task that it is in.
func (h *hclFile) block(b *hclsyntax.Block, names map[string]string) *block {
	made := &block{kind: b.Type, at: h.at(b.DefRange()), attrs: map[string]attr{}}
	if len(b.Labels) > 0 {
		made.label = b.Labels[0]
	}
	names = withName(names, made)
	for name, a := range b.Body.Attributes {
		made.attrs[name] = h.attr(a, names)
		if object, ok := a.Expr.(*hclsyntax.ObjectConsExpr); ok && name == "port_map" { // as Nomad reads it
			made.blocks = append(made.blocks, h.object(name, object, names))
		}
	}
	for _, sub := range b.Body.Blocks {
		made.blocks = append(made.blocks, h.block(sub, names))
	}
	return made
}

// object returns the block that an attribute with the same names and values is short for.
func (h *hclFile) object(kind string, object *hclsyntax.ObjectConsExpr, names map[string]string) *block {
	made := &block{kind: kind, at: h.at(object.SrcRange), attrs: map[string]attr{}}
	for _, item := range object.Items {
		if key, ok := h.evaluate(item.KeyExpr, names); ok && key.Type() == cty.String {
			made.attrs[key.AsString()] = h.attr(&hclsyntax.Attribute{Expr: item.ValueExpr, SrcRange: item.ValueExpr.Range()}, names)
		}
	}
	return made
}

// withName adds the variables by which Nomad calls a job, group or task.
func withName(names map[string]string, b *block) map[string]string {
	variables := map[string][]string{"job": {"JOB", "NOMAD_JOB_NAME"}, "group": {"TASKGROUP", "GROUP", "NOMAD_GROUP_NAME"}, "task": {"TASK", "NOMAD_TASK_NAME"}}[b.kind]
	if len(variables) == 0 {
		return names
	}
	more := map[string]string{}
	for key, value := range names {
		more[key] = value
	}
	for _, v := range variables {
		more[v] = b.label
	}
	return more
}

func (h *hclFile) at(r hcl.Range) string { return fmt.Sprintf("%s:%d", h.name, r.Start.Line) }

func (h *hclFile) attr(a *hclsyntax.Attribute, names map[string]string) attr {
	made := attr{at: h.at(a.SrcRange), source: string(a.Expr.Range().SliceBytes(h.text))}
	if v, ok := h.evaluate(a.Expr, names); ok {
		made.value = plainValue(v)
	}
	return made
}

// evaluate returns the value of an expression that the file alone tells, if it is not too large.
func (h *hclFile) evaluate(e hclsyntax.Expression, names map[string]string) (cty.Value, bool) {
	bounded := true
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		if _, loops := n.(*hclsyntax.ForExpr); loops {
			bounded = false
		}
		return nil
	})
	if !bounded {
		return cty.NilVal, false
	}
	scope := map[string]cty.Value{"var": cty.ObjectVal(h.vars), "local": cty.ObjectVal(h.loc)}
	for key, value := range names {
		scope[key] = cty.StringVal(value)
	}
	v, problems := e.Value(&hcl.EvalContext{Variables: scope, Functions: functions()})
	if problems.HasErrors() || !v.IsWhollyKnown() || v.IsNull() {
		return cty.NilVal, false
	}
	left := sizeOf(v, maxEvaluated)
	h.size += maxEvaluated - left
	return v, left > 0 && h.size < maxValues
}

// functions are those of Nomad that cannot make much of little.
func functions() map[string]function.Function {
	return map[string]function.Function{
		"lower": stdlib.LowerFunc, "upper": stdlib.UpperFunc, "trimspace": stdlib.TrimSpaceFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimsuffix": stdlib.TrimSuffixFunc, "join": stdlib.JoinFunc, "concat": stdlib.ConcatFunc, "length": stdlib.LengthFunc, "coalesce": stdlib.CoalesceFunc,
		"min": stdlib.MinFunc, "max": stdlib.MaxFunc,
	}
}

// sizeOf returns what is left of a number of bytes when the value has taken its share.
func sizeOf(v cty.Value, left int) int {
	left--
	switch {
	case left <= 0 || v.IsNull():
	case v.Type() == cty.String:
		left -= len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next() && left > 0; {
			_, item := it.Element()
			left = sizeOf(item, left)
		}
	}
	return left
}

// plainValue returns a value as attr has it, nil for what it has not.
func plainValue(v cty.Value) any {
	if v.IsMarked() {
		return nil
	}
	switch {
	case v.IsNull():
		return nil
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Number:
		n, _ := v.AsBigFloat().Float64()
		return n
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type().IsTupleType() || v.Type().IsListType() || v.Type().IsSetType():
		return textsOf(v)
	case v.Type().IsObjectType() || v.Type().IsMapType():
		table := map[string][]string{}
		for it := v.ElementIterator(); it.Next(); {
			key, item := it.Element()
			switch value := plainValue(item).(type) {
			case []string:
				table[key.AsString()] = value
			case string:
				table[key.AsString()] = []string{value}
			default:
				return nil
			}
		}
		return table
	}
	return nil
}

// textsOf returns a list of texts, nil for another one.
func textsOf(v cty.Value) any {
	all := []string{}
	for it := v.ElementIterator(); it.Next(); {
		_, item := it.Element()
		switch value := plainValue(item).(type) {
		case string:
			all = append(all, value)
		case float64:
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%.0f", value), "."))
		default:
			return nil
		}
	}
	return slices.Clip(all)
}
