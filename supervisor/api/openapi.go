package api

import (
	_ "embed"
	"net/http"
)

// openAPIDocument is kept by hand. Tests compare it with the routes, with the fields of what is answered,
// and with the answers of all tests of this package.
//
//go:embed openapi.json
var openAPIDocument []byte

// openAPI answers with the description of all routes, in OpenAPI 3.1.
func (a *API) openAPI(w http.ResponseWriter, _ *http.Request) {
	a.header(w, a.jsonType)
	w.Write(openAPIDocument)
}
