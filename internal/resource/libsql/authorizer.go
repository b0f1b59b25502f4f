package libsql

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
)

// access is what a statement does, as the authorizer sees it.
type access struct {
	writes  bool // to the file
	changes bool // rows, as affected_row_count counts them
	inserts bool
	schema  bool // changes the schema
	// private is whether it changes the connection itself, such as a temporary table does.
	private bool
}

// authorizer decides what statements may do, and records what they do. SQLite asks it while it
// prepares a statement, also for those that it prepares itself while another one runs.
type authorizer struct {
	access access
	// denied is what was refused last.
	denied string
	// vacuum is whether VACUUM is running, which attaches a nameless file.
	vacuum bool
	// own is whether the statement is one of the engine itself.
	own bool
}

// modules are the virtual tables that can be created. fts5vocab reads the terms of an fts5 table.
var modules = []string{"fts5", "fts5vocab", "rtree", "rtree_i32", "geopoly"}

// pragma is which forms of a PRAGMA are allowed.
type pragma int

const (
	readPragma    pragma = iota + 1 // without argument
	argPragma                       // with an argument that is not a value to set, such as a table
	filePragma                      // with a value that is written to the file
	privatePragma                   // with a value for the connection
)

// pragmas are those that clients and tools use to read the schema and to migrate it. No other is
// allowed: they change how the file is written, use memory of the process, or tell its paths.
var pragmas = map[string]pragma{
	"table_info": argPragma, "table_xinfo": argPragma, "table_list": argPragma,
	"index_list": argPragma, "index_info": argPragma, "index_xinfo": argPragma,
	"foreign_key_list": argPragma, "foreign_key_check": argPragma,
	"integrity_check": argPragma, "quick_check": argPragma, "optimize": argPragma,
	"data_version": readPragma, "schema_version": readPragma, "encoding": readPragma,
	"page_count": readPragma, "page_size": readPragma, "freelist_count": readPragma, "max_page_count": readPragma,
	"journal_mode": readPragma, "synchronous": readPragma, "auto_vacuum": readPragma,
	"collation_list": readPragma, "compile_options": readPragma, "function_list": readPragma, "module_list": readPragma,
	"user_version": filePragma, "application_id": filePragma,
	"foreign_keys": privatePragma, "defer_foreign_keys": privatePragma, "recursive_triggers": privatePragma,
	"legacy_alter_table": privatePragma, "analysis_limit": privatePragma,
	"busy_timeout": argPragma, // many clients set it; Authorize ignores it
}

// Authorize implements sqlite.Authorizer.
func (a *authorizer) Authorize(action sqlite.Action) sqlite.AuthResult {
	if denied := a.refusal(action); denied != "" && !a.own {
		a.denied = denied
		return sqlite.AuthResultDeny
	}
	if action.Type() == sqlite.OpPragma && strings.EqualFold(action.Pragma(), "busy_timeout") && !a.own {
		return sqlite.AuthResultIgnore // it would replace the engine's own queue of writers
	}
	a.record(action)
	return sqlite.AuthResultOK
}

// refusal returns what is not allowed of an action, or "".
func (a *authorizer) refusal(action sqlite.Action) string {
	switch action.Type() {
	case sqlite.OpAttach:
		if !a.vacuum || action.File() != "" {
			return "ATTACH and VACUUM INTO"
		}
	case sqlite.OpDetach:
		return "DETACH"
	case sqlite.OpPragma:
		if !allowedPragma(action) {
			return "PRAGMA " + action.Pragma()
		}
	case sqlite.OpCreateVTable:
		if !slices.Contains(modules, strings.ToLower(action.Module())) {
			return "virtual table module " + action.Module()
		}
	case sqlite.OpRead:
		if strings.EqualFold(action.Table(), "sqlite_dbpage") {
			return "sqlite_dbpage"
		}
	}
	return ""
}

func allowedPragma(action sqlite.Action) bool {
	form, known := pragmas[strings.ToLower(action.Pragma())]
	argument := action.PragmaArg()
	if strings.EqualFold(action.Pragma(), "journal_mode") && strings.EqualFold(argument, "wal") {
		return true // what it is already, as many clients set it
	}
	return known && (argument == "" || form != readPragma)
}

// record notes what an action does.
func (a *authorizer) record(action sqlite.Action) {
	temporary := action.Database() == "temp"
	switch action.Type() {
	case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete:
		a.access.writes = a.access.writes || !temporary
		a.access.changes = true
		a.access.inserts = a.access.inserts || action.Type() == sqlite.OpInsert
	case sqlite.OpPragma:
		a.recordPragma(action)
	case sqlite.OpCreateTempIndex, sqlite.OpCreateTempTable, sqlite.OpCreateTempTrigger, sqlite.OpCreateTempView:
		a.access.private = true
		a.access.schema = true
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive, sqlite.OpTransaction, sqlite.OpSavepoint:
	default: // the others change the schema
		a.access.writes = true
		a.access.schema = true
	}
}

func (a *authorizer) recordPragma(action sqlite.Action) {
	name := strings.ToLower(action.Pragma())
	set := action.PragmaArg() != ""
	a.access.writes = a.access.writes || set && pragmas[name] == filePragma || name == "optimize"
	a.access.private = a.access.private || set && pragmas[name] == privatePragma
}
