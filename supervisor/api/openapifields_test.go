package api

import (
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"healthd/supervisor"
	"healthd/supervisor/core"
)

// The schemas have the fields of what is answered, all that are always there as required, and no others.
func TestSchemasHaveTheFields(t *testing.T) {
	c := theContract(t)
	types := map[string]reflect.Type{}
	for _, v := range []any{
		Status{}, ContainerState{}, Running{}, Waiting{}, Terminated{}, Condition{}, ProbeStatus{}, Service{}, Endpoint{}, core.Event{},
		TraefikConfig{}, TraefikHTTP{}, TraefikService{}, TraefikServers{}, TraefikServer{}, TargetGroup{}, TargetLabels{},
		FleetView{}, FleetHost{}, FleetMember{}, FleetHold{}, FleetHeld{},
		Report{}, ServiceReport{}, ReportDay{}, ReportPeriod{}, Explanation{}, Value{}, Next{}, ProbeResult{}, Unsupervised{}, Bystander{}, Daemon{}, NotifyTest{}, Reload{}, RefusedReload{}, Error{},
		supervisor.RecordInfo{}, supervisor.FlightRecord{}, supervisor.RecordedProbe{}, supervisor.RecordedResult{}, supervisor.RecordedCommand{}, supervisor.RecordedLog{},
		supervisor.RecordedLine{}, supervisor.RecordedProcesses{}, supervisor.RecordedUsage{}, supervisor.RecordedInspection{},
		Glance{}, Failing{}, Timeline{}, TimelineChange{}, TimelineProbe{}, TimelineRecord{},
	} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	for name, schema := range c.doc.Components.Schemas {
		of, ok := types[name]
		if !ok && name != "Phase" {
			t.Errorf("no type is called %s", name)
		} else if ok {
			compareFields(t, name, schema, of)
		}
		delete(types, name)
	}
	for name := range types {
		t.Errorf("%s has no schema", name)
	}
}

func compareFields(t *testing.T, name string, schema schemaObject, of reflect.Type) {
	t.Helper()
	required, told := []string{}, 0
	for i := range of.NumField() {
		f := of.Field(i)
		field, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if field == "-" {
			continue
		}
		told++
		property, ok := schema.Properties[field]
		if !ok {
			t.Errorf("%s: the field %s has no schema", name, field)
			continue
		}
		if options == "" {
			required = append(required, field)
		}
		if got, want := describe(property), kindOf(f.Type); got != want {
			t.Errorf("%s.%s: documented as %s, it is %s", name, field, got, want)
		}
	}
	if slices.Sort(required); !slices.Equal(slices.Sorted(slices.Values(schema.Required)), required) {
		t.Errorf("%s: required are %v, want %v", name, schema.Required, required)
	}
	if len(schema.Properties) != told {
		t.Errorf("%s: %d fields are documented, there are %d", name, len(schema.Properties), told)
	}
}

// describe writes a schema as kindOf writes a type.
func describe(s schemaObject) string {
	switch kind, _ := s.Type.(string); {
	case s.Ref == "#/components/schemas/Phase":
		return "string"
	case s.Ref != "":
		return path.Base(s.Ref)
	case s.Items != nil:
		return "[]" + describe(*s.Items)
	case s.Format == "date-time" && kind == "":
		return "time or null"
	case s.Format == "date-time":
		return "time"
	default:
		return kind
	}
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return "time"
	case t == reflect.TypeFor[*time.Time]():
		return "time or null"
	case t.Kind() == reflect.Pointer:
		return t.Elem().Name()
	case t.Kind() == reflect.Slice:
		return "[]" + kindOf(t.Elem())
	case t.Kind() == reflect.Struct:
		return t.Name()
	case t.Kind() == reflect.Map:
		return "object"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.Int:
		return "integer"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return t.Kind().String()
}
