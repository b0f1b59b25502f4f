// Command consoledoc writes the OpenAPI document of the route table, without a running server. The
// types of the console are generated from it.
package main

import (
	"fmt"
	"os"

	"steward/internal/server"
	"steward/internal/web"
)

func main() {
	routes := (&server.Server{}).Routes() // the handlers are not called
	text, err := web.NewAPI(routes, nil, nil).Document()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "consoledoc:", err)
		os.Exit(1)
	}
}
