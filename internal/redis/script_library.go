package redis

import (
	"maps"
	"slices"
	"strings"
)

func functionLoad(x *call) error {
	replace := false
	for n := 2; n < len(x.args)-1; n++ {
		if !x.is(n, "REPLACE") {
			return errorf("ERR Unknown option given: %s", x.args[n])
		}
		replace = true
	}
	b, err := x.addLibrary(x.args[len(x.args)-1], replace)
	if err != nil {
		return err
	}
	x.effect("function", "load", "replace", b.text)
	return x.replyBulk(b.name)
}

func functionDelete(x *call) error {
	if x.scripts.libraries[x.args[2]] == nil {
		return errorf("ERR Library not found")
	}
	delete(x.scripts.libraries, x.args[2])
	x.effect("function", "delete", x.args[2])
	return x.replyOK()
}

func functionFlush(x *call) error {
	if len(x.args) > 3 {
		return errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try FUNCTION HELP.", x.args[1])
	}
	if len(x.args) == 3 && !x.is(2, "SYNC") && !x.is(2, "ASYNC") {
		return errorf("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
	}
	x.flushLibraries()
	return x.replyOK()
}

// flushLibraries deletes all libraries.
func (x *call) flushLibraries() {
	x.scripts.libraries = nil
	x.scripts.forget(x.scripts.functions)
	x.effect("function", "flush")
}

func functionList(x *call) error {
	withCode, pattern, filtered := false, "", false
	for n := 2; n < len(x.args); n++ {
		switch {
		case x.is(n, "WITHCODE") && !withCode:
			withCode = true
		case x.is(n, "LIBRARYNAME") && !filtered:
			n++
			if n == len(x.args) {
				return errorf("ERR library name argument was not given")
			}
			filtered, pattern = true, x.args[n]
		default:
			return errorf("ERR Unknown argument %s", x.args[n])
		}
	}
	all := x.libraries()
	if filtered {
		all = slices.DeleteFunc(all, func(b *library) bool { return !globMatch(strings.ToLower(pattern), strings.ToLower(b.name)) })
	}
	x.out.array(len(all))
	for _, b := range all {
		x.replyLibrary(b, withCode)
	}
	return nil
}

func (x *call) replyLibrary(b *library, withCode bool) {
	if withCode {
		x.out.mapOf(4)
	} else {
		x.out.mapOf(3)
	}
	x.out.values("library_name", b.name, "engine", "LUA", "functions")
	x.out.array(len(b.functions))
	for _, f := range b.functions {
		x.replyFunction(f)
	}
	if withCode {
		x.out.bulk("library_code")
		x.out.bulk(b.text)
	}
}

func (x *call) replyFunction(f *function) {
	x.out.mapOf(3)
	x.out.values("name", f.name, "description")
	if f.hasDescription {
		x.out.bulk(f.description)
	} else {
		x.out.null()
	}
	x.out.bulk("flags")
	var names []string
	for _, flag := range scriptFlagNames {
		if f.flags.has(flag.flag) {
			names = append(names, flag.name)
		}
	}
	x.out.set(len(names))
	for _, name := range names {
		x.out.simple(name)
	}
}

func functionStats(x *call) error {
	all := x.libraries()
	functions := 0
	for _, b := range all {
		functions += len(b.functions)
	}
	x.out.mapOf(2)
	x.out.bulk("running_script")
	if r := x.scripts.running; r != nil && r.isFunction() {
		x.out.mapOf(3)
		x.out.values("name", r.name, "command")
		x.out.bulks(r.x.args)
		x.out.bulk("duration_ms")
		x.out.int(r.polled.Milliseconds())
	} else {
		x.out.null()
	}
	x.out.bulk("engines")
	x.out.mapOf(1)
	x.out.bulk("LUA")
	x.out.mapOf(2)
	x.out.values("libraries_count", len(all), "functions_count", functions)
	return nil
}

// functionDump dumps all libraries' texts in our own format, with a version and a checksum.
func functionDump(x *call) error {
	b := appendUint(nil, uint64(len(x.scripts.libraries)))
	for _, name := range slices.Sorted(maps.Keys(x.scripts.libraries)) {
		b = appendString(b, x.scripts.libraries[name].text)
	}
	x.out.bytes(seal(b))
	return nil
}

// libraryTexts returns the texts in a dump.
func libraryTexts(text string) ([]string, bool) {
	r := unseal(text)
	if r == nil {
		return nil, false
	}
	var all []string
	for range r.count() {
		all = append(all, r.string())
	}
	return all, !r.bad && r.text == ""
}

func functionRestore(x *call) error {
	if len(x.args) > 4 {
		return errorf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try FUNCTION HELP.", x.args[1])
	}
	if len(x.args) == 4 && !x.is(3, "FLUSH") && !x.is(3, "APPEND") && !x.is(3, "REPLACE") {
		return errorf("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
	}
	texts, ok := libraryTexts(x.args[2])
	if !ok {
		return errorf("ERR DUMP payload version or checksum are wrong")
	}
	old := x.scripts.libraries
	x.scripts.libraries = maps.Clone(old)
	if x.is(3, "FLUSH") {
		x.scripts.libraries = nil
	}
	for _, text := range texts {
		if _, err := x.addLibrary(text, x.is(3, "REPLACE")); err != nil {
			x.scripts.libraries = old
			return replyError(strings.ReplaceAll(err.Error(), "'", ""))
		}
	}
	x.effect("function", "flush")
	for _, args := range x.preamble() {
		x.effect(args...)
	}
	return x.replyOK()
}
