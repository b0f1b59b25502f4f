package libsql

import (
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
)

// access records a statement's effects, as the authorizer sees them.
type access struct {
	writes  bool // to the file
	changes bool // changes rows that affected_row_count counts
	inserts bool
	schema  bool // changes the schema
	// private reports whether it changes the connection itself, for example with a temporary table.
	private bool
}

// authorizer decides what statements may do, and records what they do. SQLite asks it while it prepares a
// statement, and also for its own statements while another one runs.
type authorizer struct {
	access access
	// denied describes the last refusal.
	denied string
	// vacuum reports whether VACUUM is running, which attaches a nameless file.
	vacuum bool
	// own reports whether the statement is the engine's own.
	own bool
}

// modules lists the virtual tables that clients can create. fts5vocab reads the terms in an fts5 table.
var modules = []string{"fts5", "fts5vocab", "rtree", "rtree_i32", "geopoly"}

// pragma says which forms of a PRAGMA we allow.
type pragma int

const (
	readPragma    pragma = iota + 1 // no argument
	argPragma                       // an argument that sets nothing, such as a table
	filePragma                      // a value that goes into the file
	privatePragma                   // a value for the connection
)

// pragmas lists those that clients and tools need to read and migrate the schema. We allow no others:
// they change how the file is written, use the process's memory, or reveal its paths.
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
	"busy_timeout": argPragma, // many clients set it, but Authorize ignores it
}

// Authorize implements sqlite.Authorizer.
func (a *authorizer) Authorize(action sqlite.Action) sqlite.AuthResult {
	if denied := a.refusal(action); denied != "" && !a.own {
		a.denied = denied
		return sqlite.AuthResultDeny
	}
	if action.Type() == sqlite.OpPragma && strings.EqualFold(action.Pragma(), "busy_timeout") && !a.own {
		return sqlite.AuthResultIgnore // setting it would disable the engine's own queue for writers
	}
	a.record(action)
	return sqlite.AuthResultOK
}

// refusal names the forbidden part of an action, or returns "".
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
		return true // many clients set it, and it is already wal
	}
	return known && (argument == "" || form != readPragma)
}

// record notes an action's effects.
func (a *authorizer) record(action sqlite.Action) {
	temporary := action.Database() == "temp"
	switch action.Type() {
	case sqlite.OpInsert, sqlite.OpUpdate, sqlite.OpDelete:
		a.access.writes = a.access.writes || !temporary
		a.access.changes = true
		a.access.inserts = a.access.inserts || action.Type() == sqlite.OpInsert
	case sqlite.OpPragma:
		name := strings.ToLower(action.Pragma())
		set := action.PragmaArg() != ""
		a.access.writes = a.access.writes || set && pragmas[name] == filePragma || name == "optimize"
		a.access.private = a.access.private || set && pragmas[name] == privatePragma
	case sqlite.OpCreateTempIndex, sqlite.OpCreateTempTable, sqlite.OpCreateTempTrigger, sqlite.OpCreateTempView:
		a.access.private = true
		a.access.schema = true
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive, sqlite.OpTransaction, sqlite.OpSavepoint:
	default: // all others change the schema
		a.access.writes = true
		a.access.schema = true
	}
}
