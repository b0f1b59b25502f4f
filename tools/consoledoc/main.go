// Command consoledoc writes the route table's OpenAPI document, without a running server. We generate the
// console's types from it.
package main

import (
	"fmt"
	"os"

	"steward/internal/server"
	"steward/internal/web"
)

func main() {
	routes := (&server.Server{}).Routes() // nobody calls the handlers
	text, err := web.NewAPI(routes, nil, nil).Document()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "consoledoc:", err)
		os.Exit(1)
	}
}
