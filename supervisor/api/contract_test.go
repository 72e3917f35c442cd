package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"healthd/supervisor"
)

// contract is openapi.json. The helpers of this package's tests compare each answer with it.
type contract struct {
	doc      document
	whole    any            // all of the document
	mux      *http.ServeMux // finds the documented path of a request
	compiler *jsonschema.Compiler
	mu       sync.Mutex // of the compiler
}

// document is what tests need of openapi.json by name.
type document struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas    map[string]schemaObject    `json:"schemas"`
		Parameters map[string]parameterObject `json:"parameters"`
		Responses  map[string]responseObject  `json:"responses"`
	} `json:"components"`
}

type operation struct {
	Tags        []string                  `json:"tags"`
	OperationID string                    `json:"operationId"`
	Description string                    `json:"description"`
	Parameters  []parameterObject         `json:"parameters"`
	Responses   map[string]responseObject `json:"responses"`
}

type responseObject struct {
	Ref     string         `json:"$ref"`
	Content map[string]any `json:"content"`
}

type parameterObject struct {
	Ref      string `json:"$ref"`
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
}

type schemaObject struct {
	Ref        string                  `json:"$ref"`
	Type       any                     `json:"type"`
	Format     string                  `json:"format"`
	Properties map[string]schemaObject `json:"properties"`
	Required   []string                `json:"required"`
	Items      *schemaObject           `json:"items"`
	Additional any                     `json:"additionalProperties"`
}

const documentURL = "http://healthd/v1/openapi.json"

var loadContract = sync.OnceValues(func() (*contract, error) {
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(openAPIDocument))
	if err != nil {
		return nil, err
	}
	c := &contract{whole: whole, mux: http.NewServeMux(), compiler: jsonschema.NewCompiler()}
	c.compiler.AssertFormat()
	if err := c.compiler.AddResource(documentURL, whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(openAPIDocument, &c.doc); err != nil {
		return nil, err
	}
	for documented := range c.doc.Paths {
		pattern := documented
		if pattern == "/" {
			pattern = "/{$}"
		}
		c.mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	}
	return c, nil
})

func theContract(t testing.TB) *contract {
	t.Helper()
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// operation returns what is documented for a method of a documented path, nil if nothing is.
func (c *contract) operation(documented, method string) (*operation, error) {
	data, ok := c.doc.Paths[documented][strings.ToLower(method)]
	if !ok {
		return nil, nil
	}
	var op operation
	return &op, json.Unmarshal(data, &op)
}

func (op *operation) control() bool { return slices.Contains(op.Tags, "control") }

// find returns the documented path of a request and its operation. HEAD and OPTIONS count as GET where
// both listeners answer.
func (c *contract) find(r *http.Request) (documented string, op *operation, err error) {
	_, documented = c.mux.Handler(r)
	documented = strings.TrimSuffix(documented, "{$}")
	if op, err = c.operation(documented, r.Method); op != nil || err != nil {
		return documented, op, err
	}
	if r.Method == http.MethodHead || r.Method == http.MethodOptions {
		if op, err = c.operation(documented, http.MethodGet); op != nil && op.control() {
			op = nil
		}
	}
	return documented, op, err
}

// check returns what is wrong with an answer.
func (c *contract) check(r *http.Request, status int, header http.Header, body []byte) error {
	documented, op, err := c.find(r)
	switch {
	case err != nil:
		return err
	case path.Clean(r.URL.Path) != r.URL.Path, op == nil,
		op.control() && status == http.StatusMethodNotAllowed, // on the read-only listener
		status == http.StatusNotFound && bytes.HasPrefix(body, []byte(`{"error":"no such path: `)):
		if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s answered %d and is not documented", r.Method, r.URL, status)
		}
		if r.Method == http.MethodHead {
			return nil
		}
		return c.validate("/components/schemas/Error", "application/json", body)
	case header.Get("Content-Type") == "text/event-stream":
		return nil // see follow
	}
	at := "/paths/" + escapePointer(documented) + "/get/responses/" + strconv.Itoa(status)
	if r.Method != http.MethodHead && r.Method != http.MethodOptions {
		at = "/paths/" + escapePointer(documented) + "/" + strings.ToLower(r.Method) + "/responses/" + strconv.Itoa(status)
	}
	response, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s: status %d is not documented", op.OperationID, status)
	}
	if response.Ref != "" {
		at = strings.TrimPrefix(response.Ref, "#")
		response = c.doc.Components.Responses[path.Base(response.Ref)]
	}
	if status == http.StatusNotModified {
		return nil // it has no body
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if _, ok := response.Content[kind]; !ok || err != nil {
		return fmt.Errorf("%s: content type %q of status %d is not documented, %w", op.OperationID, header.Get("Content-Type"), status, err)
	}
	if r.Method == http.MethodHead {
		return nil
	}
	if err := c.validate(at+"/content/"+escapePointer(kind)+"/schema", kind, body); err != nil {
		return fmt.Errorf("%s, status %d: %w", op.OperationID, status, err)
	}
	return nil
}

func escapePointer(s string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(s)
}

// validate checks a body against the schema at a place of the document.
func (c *contract) validate(at, kind string, body []byte) error {
	var value any = string(body)
	if kind == "application/json" {
		var err error
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(body)); err != nil {
			return fmt.Errorf("%w in %s", err, body)
		}
	}
	c.mu.Lock()
	schema, err := c.compiler.Compile(documentURL + "#" + at)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// checkAnswer fails the test if an answer is not as openapi.json says.
func checkAnswer(t testing.TB, r *http.Request, status int, header http.Header, body []byte) {
	t.Helper()
	if err := theContract(t).check(r, status, header, body); err != nil {
		t.Errorf("openapi.json does not say this of %s %s: %v\n%.500s", r.Method, r.URL, err, body)
	}
	// curl shows an answer in a terminal.
	if strings.HasPrefix(header.Get("Content-Type"), "application/json") && !bytes.Equal(supervisor.Escape(body), body) {
		t.Errorf("the answer to %s %s has characters that a terminal may obey: %.500q", r.Method, r.URL, body)
	}
}
