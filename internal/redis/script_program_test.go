package redis

import (
	"fmt"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// program draws the parts of a program. Its variables have types: n and m are numbers, s and u strings, l a list
// without nil, and b a boolean. Sometimes a value of another type stands where one of these is expected.
type program struct {
	t *rapid.T
	// depth is how many more levels of expressions and blocks may follow.
	depth int
}

// someScript returns a program.
func someScript(t *rapid.T) string {
	p := &program{t: t, depth: 4}
	var text strings.Builder
	text.WriteString(scriptHead)
	for range p.upTo(5) {
		text.WriteString(p.statement() + "\n")
	}
	text.WriteString(p.pick(
		func() string { return "return {show(n), show(m), s, u, l, b, show(" + p.any() + ")}" },
		func() string { return "return " + p.any() },
		func() string { return "return " + p.reply() },
		func() string { return "return {" + p.any() + ", " + p.reply() + ", " + p.any() + "}" },
		func() string { return "redis.setresp(3) return {" + p.reply() + ", " + p.any() + "}" },
		func() string { return "redis.setresp(3) return show(" + p.reply() + ")" },
		func() string { return p.fail() },
	))
	return text.String()
}

// upTo draws a number.
func (p *program) upTo(most int) int { return rapid.IntRange(0, most).Draw(p.t, "number") }

// pick draws one of some parts, one level deeper. The first of them must end.
func (p *program) pick(parts ...func() string) string {
	if p.depth == 0 {
		return parts[0]()
	}
	p.depth--
	defer func() { p.depth++ }()
	return parts[p.upTo(len(parts)-1)]()
}

// word draws one of some words.
func (p *program) word(words ...string) string {
	return rapid.SampledFrom(words).Draw(p.t, "word")
}

// use returns a part of a format with one draw for each %s.
func (p *program) use(format string, draws ...func() string) func() string {
	return func() string {
		args := make([]any, len(draws))
		for i, draw := range draws {
			args[i] = draw()
		}
		return fmt.Sprintf(format, args...)
	}
}

func (p *program) key() string { return "'" + someKey(p.t) + "'" }

// statement returns a statement.
func (p *program) statement() string {
	return p.pick(
		p.use("n = %s", p.number),
		p.use("m = %s", p.number),
		p.use("s = %s", p.string),
		p.use("u = %s", p.string),
		p.use("l = %s", p.list),
		p.use("b = %s", p.bool),
		p.use("n, m = %s, %s", p.number, p.number),
		p.use("n, s, l[1] = %s, %s, %s", p.number, p.string, p.string),
		p.use("l[#l + 1], n = %s, %s", p.string, p.number),
		p.use("l.k = %s s = show(l.k)", p.any),
		p.use("if %s then %s else %s end", p.bool, p.statement, p.statement),
		p.use("if %s then %s elseif %s then %s end", p.bool, p.statement, p.bool, p.statement),
		p.use("for i = %s, %s do cap() %s n = n + i end", p.small, p.small, p.statement),
		p.use("for i = %s, %s, -1 do cap() %s s = s .. i end", p.small, p.small, p.statement),
		p.use("for i, v in ipairs({unpack(%s)}) do cap() %s u = show(v) .. i end", p.list, p.statement),
		p.use("local c = 0 while c < %s do c = c + 1 cap() %s if %s then break end end", p.small, p.statement, p.bool),
		p.use("local c = 0 repeat local d = c c = c + 1 cap() %s until d > %s or %s", p.statement, p.small, p.bool),
		p.use("do local n, s = %s, %s %s l = {show(n), show(s)} end", p.number, p.string, p.statement),
		p.use("local f = function(n) %s return n end n = f(%s)", p.statement, p.number),
		p.use("local function f(k, ...) if k <= 0 then return select('#', ...) end cap() %s return f(k - 1, k, ...) end n = f(%s)", p.statement, p.small),
		p.use("local f = function() return 1 end local f = function() %s return f() end n = f()", p.statement),
		p.use("s = try(function() %s return %s end)", p.statement, p.any),
		p.use("s = try(function() %s end)", p.fail),
		p.use("u = try(%s)", p.call),
		p.use("u = try(redis.call, %s)", p.command),
		p.use("local ok, e = pcall(redis.call, %s) b = ok u = show(e)", p.command),
		p.use("local e = redis.pcall(%s) if type(e) == 'table' then s = show(e) else u = show(e) end", p.command),
		p.use("redis.call(%s)", p.command),
		p.use("b, s = xpcall(function() %s return 'fine' end, function(e) return 'handled ' .. show(plain(e)) end)", p.statement),
		p.use("table.insert(l, %s)", p.string),
		p.use("table.insert(l, %s, %s)", p.place, p.number),
		p.use("s = show(table.remove(l))"),
		p.use("s = show(table.remove(l, %s))", p.place),
		p.use("l = {%s, %s, 2, %s, 1} table.sort(l)", p.small, p.small, p.small),
		p.use("l = {%s, %s, 2, %s, 1} table.sort(l, function(a, b) return a %s b end)", p.small, p.small, p.small, p.word2("<", ">")),
		p.use("local t = {} for k in s:gmatch(%s) do t[#t + 1] = show(k) end l = t", p.pattern),
		p.use("local c = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) %s return b end) n = c(%s) s = show(c(%s))", p.statement, p.number, p.string),
		p.use("local t = setmetatable({}, {__index = function(t, k) return k .. '!' end, __add = function(a, c) return 7 end, __call = function(t, x) return x end, __eq = function() return true end, __lt = function() return true end, __concat = function(a, c) return 'cat' end, __unm = function() return 'neg' end}) s = t[%s] .. show(t + %s) .. show(t(%s)) .. (t .. %s) .. -t", p.string, p.number, p.string, p.string),
	)
}

// fail returns a statement that raises an error, or returns one.
func (p *program) fail() string {
	return p.pick(
		// redis-server 7.0 crashes if an error is a table without a text.
		p.use("error(show(%s))", p.string),
		p.use("error(show(%s), %s)", p.string, func() string { return p.word("0", "1", "2") }),
		p.use("error({err = show(%s)})", p.string),
		p.use("error(%s)", p.word2("nil", "true", "5", "2.5")),
		p.use("assert(%s, %s)", p.bool, p.string),
		p.use("return redis.error_reply(%s)", p.string),
		p.use("return redis.status_reply(%s)", p.string),
		p.use("return {err = %s}", p.string),
		p.use("return {ok = %s}", p.string),
		p.use("return redis.call(%s)", p.command),
		p.use("return redis.pcall(%s)", p.command),
		p.use("return nil + %s", p.number),
		p.use("return (%s)()", p.any),
	)
}

// reply returns an expression for the conversion of replies.
func (p *program) reply() string {
	return p.pick(
		p.any,
		p.use("redis.call(%s)", p.command),
		p.use("redis.pcall(%s)", p.command),
		p.use("{%s, %s, nil, %s}", p.any, p.any, p.any),
		p.use("{ok = %s}", p.string),
		p.use("{err = %s}", p.string),
		p.use("{double = %s}", p.plus),
		p.use("{big_number = %s}", func() string { return p.word("'12345678901234567890'", "'1'", "'-5'") }),
		p.use("{map = {[%s] = %s}}", p.string, p.any),
		p.use("{set = {[%s] = true}}", p.string),
		p.use("{verbatim_string = {format = 'txt', string = %s}}", p.string),
		p.use("redis.error_reply(%s)", p.string),
		p.use("redis.status_reply(%s)", p.string),
	)
}

// any returns an expression of any type.
func (p *program) any() string {
	return p.pick(
		func() string {
			return p.word("n", "m", "s", "u", "l", "b", "nil", "true", "false", "KEYS[1]", "ARGV[1]", "ARGV[2]", "KEYS", "1", "'x'", "{}")
		},
		p.number, p.string, p.list, p.bool,
		p.use("(%s and %s)", p.any, p.any),
		p.use("(%s or %s)", p.any, p.any),
		p.use("(not %s and %s or %s)", p.any, p.any, p.any),
		p.use("tonumber(%s)", p.any),
		p.use("(tonumber(%s, %s))", p.string, func() string { return p.word("2", "8", "10", "16", "36") }),
		p.use("select(%s, %s, %s, %s)", func() string { return p.word("1", "2", "-1", "'#'") }, p.any, p.any, p.any),
		p.use("unpack(%s)", p.list),
		p.use("cjson.decode(cjson.encode(%s))", p.encodable),
		p.use("cmsgpack.unpack(cmsgpack.pack(%s))", p.encodable),
		p.use("(function(...) local a, c = ... return c, a end)(%s, %s)", p.any, p.any),
		p.use("rawget(%s, %s)", p.list, p.small),
		p.use("redis.pcall(%s)", p.command),
	)
}

// small returns a small number, and place one that is a position in l.
func (p *program) small() string { return p.word("0", "1", "2", "3", "4", "-1") }
func (p *program) place() string { return p.word("1", "#l", "#l + 1", "2") }

// plus returns a number that is not minus zero, whose sign the interpreter does not always keep.
func (p *program) plus() string { return "(" + p.number() + " + 0)" }

// number returns an expression that is a number, most often.
func (p *program) number() string {
	return p.pick(
		func() string {
			return p.word("n", "m", "0", "1", "2", "-1", "10", "2.5", "-0.5", "0.1", "255", "1e15", "1e100", "123456789", "0x1F", "2147483648", "-7", "3.7e-5", "#KEYS", "ARGV[2]", "'10'", "' 7 '", "'0x10'", "#s")
		},
		p.use("(%s + %s)", p.number, p.number),
		p.use("(%s - %s)", p.number, p.number),
		// Lua computes with constants when it compiles, and keeps one of 0 and -0 only for all of a function: tonumber
		// prevents that.
		p.use("(%s * tonumber(%s))", p.number, p.number),
		p.use("(%s / tonumber(%s))", p.number, p.number),
		p.use("(%s %% %s)", p.small, p.word2("1", "2", "3", "-3", "2.5")),
		p.use("tonumber(tostring(%s ^ %s))", p.small, p.small),
		p.use("-tonumber(%s)", p.number),
		p.use("#%s", p.string),
		p.use("#%s", p.list),
		p.use("(tonumber(%s) or %s)", p.string, p.number),
		p.use("math.floor(%s)", p.number),
		p.use("math.ceil(%s)", p.number),
		p.use("math.abs(%s)", p.number),
		p.use("math.max(%s, %s)", p.number, p.number),
		p.use("math.min(%s, %s)", p.number, p.number),
		p.use("math.sqrt(%s)", p.small),
		p.use("math.fmod(%s, %s)", p.number, p.word2("1", "2", "3", "-3", "2.5")),
		p.use("select(2, math.modf(%s))", p.small),
		p.use("bit.%s(%s, %s)", p.word2("band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror"), p.number, p.number),
		p.use("bit.%s(%s)", p.word2("bnot", "tobit", "bswap"), p.number),
		p.use("(%s):byte(%s)", p.string, p.small),
		p.use("(string.find(%s, %s))", p.string, p.pattern),
		p.use("select('#', string.find(%s, %s))", p.string, p.pattern),
		p.use("select(2, string.gsub(%s, %s, ''))", p.string, p.pattern),
		p.use("(struct.unpack('%s', struct.pack('%s', %s)))", p.word2(">I2", "<i4", "b", "B", ">h", "d", ">d", "l", "i3", ">I8"), p.word2("<I4i8", "d", ">d", "l", ">I8"), p.number),
		p.use("table.maxn(%s)", p.list),
		p.use("(%s and %s or %s)", p.bool, p.number, p.number),
		p.wrong,
	)
}

// word2 is word for use.
func (p *program) word2(words ...string) func() string {
	return func() string { return p.word(words...) }
}

// wrong returns a value of another type now and then.
func (p *program) wrong() string {
	return p.word("1", "2", "3", "n", "nil", "'x'", "{}", "true")
}

// literal returns a text in quotes.
func (p *program) literal() string {
	return p.word("''", "'x'", "'abc'", "'hello world'", "'a,b,,c'", "'10'", "'key=value'", "'a.b-c'", "'(x(y)z)'", `'tab\tnew\nline'`, `'\0zero\0'`,
		`'\255\128'`, "'-5'", "' 42 '", "'MiXed'", "'aaa'", "'%d'", "'[x]'", `'\r\n'`, "'1e3'", `"it's"`, "'nan'", "'0x'", "'inf'")
}

// string returns an expression that is a string, most often.
func (p *program) string() string {
	return p.pick(
		p.literal,
		p.word2("s", "u", "KEYS[1]", "KEYS[2]", "ARGV[1]", "ARGV[2]", "'x'", "'abc'"),
		p.use("(%s .. %s)", p.string, p.string),
		p.use("(%s .. %s .. %s)", p.string, p.plus, p.string),
		p.use("show(%s)", p.number),
		p.use("show(%s)", p.bool),
		p.use("show(%s)", p.any),
		p.use("string.format('[%s]', %s)", p.spec("diuoxXceEfgG"), p.plus),
		p.use("string.format('%s', %s)", p.spec("sq"), p.string),
		p.use("string.format('%s|%s', %s, %s)", p.spec("dfg"), p.spec("s"), p.plus, p.string),
		p.use("(%s):sub(%s, %s)", p.string, p.small, p.small),
		p.use("(%s):sub(%s)", p.string, p.small),
		p.use("(%s):%s()", p.string, p.word2("upper", "lower", "reverse")),
		p.use("(%s):rep(%s)", p.string, p.small),
		p.use("(string.gsub(%s, %s, %s))", p.string, p.pattern, p.replacement),
		p.use("(string.gsub(%s, %s, %s, %s))", p.string, p.pattern, p.replacement, p.small),
		p.use("show({string.find(%s, %s)})", p.string, p.pattern),
		p.use("show({string.find(%s, %s, %s)})", p.string, p.pattern, p.small),
		p.use("show({string.find(%s, %s, %s, true)})", p.string, p.string, p.small),
		p.use("show({string.match(%s, %s)})", p.string, p.pattern),
		p.use("show({string.match(%s, %s, %s)})", p.string, p.pattern, p.small),
		p.use("string.char(%s, 66)", p.word2("0", "65", "255", "256", "-1")),
		p.use("table.concat(%s)", p.list),
		p.use("table.concat(%s, %s)", p.list, p.string),
		p.use("table.concat(%s, ',', %s)", p.list, p.small),
		p.use("table.concat(%s, ',', %s, %s)", p.list, p.small, p.small),
		p.use("cjson.encode(%s)", p.sparse),
		p.use("show(cjson.decode(%s))", p.json),
		p.use("cmsgpack.pack(%s)", p.sparse),
		p.use("show({cmsgpack.unpack(%s)})", p.string),
		p.use("show({cmsgpack.unpack_limit(cmsgpack.pack(%s, %s, 3), %s)})", p.encodable, p.encodable, p.small),
		p.use("struct.pack('%s', %s, %s)", p.word2(">I2I2", "<i4h", "bB", ">hl", "df", "!4bi", "!8hd", "I3I5", "LT"), p.plus, p.plus),
		p.use("struct.pack('%s', %s)", p.word2("s", "c2", "c0", "ss"), p.string),
		p.use("show({struct.unpack('%s', %s)})", p.word2(">I2", "<h", "b", "s", "c2", "bc0", ">i3", "f", "x", "Bs"), p.string),
		p.use("redis.sha1hex(%s)", p.string),
		p.use("bit.tohex(%s)", p.number),
		p.use("bit.tohex(%s, %s)", p.number, p.small),
		p.use("type(%s)", p.any),
		p.use("(%s or %s)", p.string, p.string),
		p.wrong,
	)
}

// spec returns a format of one of some letters.
func (p *program) spec(letters string) func() string {
	return func() string {
		letter := p.word(strings.Split(letters, "")...)
		width := p.word("", "", "1", "5", "10", "12")
		precision := p.word("", "", ".0", ".1", ".3", ".10")
		flags := p.word("", "", "-", "0", "+", " ", "#", "-+", "0+")
		if letter == "q" || letter == "c" { // they have no meaning there
			return "%" + letter
		}
		if letter == "s" {
			flags = p.word("", "-")
		}
		if precision == ".0" && strings.Contains("diuoxX", letter) {
			precision = ".2" // 0 has no digits, but a sign, in C
		}
		return "%" + flags + width + precision + letter
	}
}

// pattern returns a pattern, some of which are malformed.
func (p *program) pattern() string {
	var text strings.Builder
	text.WriteString(p.word("", "", "", "", "^"))
	open := 0
	for range p.upTo(4) {
		text.WriteString(p.word("a", "b", "x", "1", " ", ".", "%a", "%d", "%w", "%s", "%p", "%l", "%u", "%x", "%c", "%z", "%A", "%S", "%.", "%%",
			"[abc]", "[^a]", "[a-c]", "[%w_]", "[]]", "[^%s]", "[a-]", "[%a-z]", "(", ")", "()", "%1", "%b()", "%f[%w]", "[0-9.]", ",", "="))
		switch last := text.String(); {
		case strings.HasSuffix(last, "(") && !strings.HasSuffix(last, "%b("):
			open++
		case strings.HasSuffix(last, ")"):
			open--
		default:
			text.WriteString(p.word("", "", "", "*", "+", "-", "?"))
		}
	}
	for range open {
		text.WriteString(")")
	}
	text.WriteString(p.word("", "", "", "$", "", "", "[", "%"))
	return strconv.Quote(text.String())
}

// replacement returns what string.gsub takes.
func (p *program) replacement() string {
	return p.pick(
		p.word2("''", "'<%0>'", "'%1'", "'%2%1'", "'x'", "'%%'", "5", "'%'"),
		p.string,
		p.use("{a = 'A', b = %s, x = false}", p.any),
		p.use("function(a, c) return %s end", p.any),
		p.use("function(a, c) return a and show(a) .. show(c) end"),
	)
}

// list returns an expression that is a list without nil.
func (p *program) list() string {
	return p.pick(
		p.word2("l", "{}", "{1}", "{1, 2, 3}", "{'a', 'b'}", "KEYS", "ARGV"),
		p.numbers,
		p.use("{%s, %s}", p.string, p.number),
		p.use("{%s, {%s}}", p.string, p.number),
		p.use("{%s, k = %s}", p.string, p.number),
		p.use("{[1] = %s, [2] = %s}", p.string, p.number),
		p.use("{(%s):byte(1, -1)}", p.string),
		p.use("{%s:match('(%%w)(%%w)')}", p.use("show(%s)", p.string)),
		p.use("(function(...) return {...} end)(%s, %s)", p.string, p.number),
		p.use("cjson.decode(cjson.encode(%s))", p.list),
		p.use("cmsgpack.unpack(cmsgpack.pack(%s))", p.list),
	)
}

func (p *program) numbers() string {
	return p.use("{%s, %s, %s, 3, 1}", p.number, p.number, p.number)()
}

// encodable returns an expression whose encoding does not depend on the order of a table's keys.
func (p *program) encodable() string {
	return p.pick(
		p.word2("1", "'x'", "true", "nil", "{}", "{1, 2}", "cjson.null"),
		p.plus, p.string, p.bool,
		p.use("{show(%s), %s}", p.string, p.plus),
		p.use("{{%s}, {k = %s}}", p.plus, p.encodable),
		p.use("{k = %s}", p.encodable),
		p.use("{[show(%s)] = %s}", p.string, p.encodable),
	)
}

// sparse is encodable with lists that have nil, whose length Lua does not define.
func (p *program) sparse() string {
	return p.pick(
		p.encodable,
		p.word2("{[1] = 1, [3] = 3}", "{[2] = 'x'}", "{nil, 2}", "{[100] = 1}"),
		p.use("{[%s] = %s}", p.small, p.sparse),
		p.use("{%s, %s}", p.sparse, p.sparse),
	)
}

// json returns a text that may be JSON.
func (p *program) json() string {
	var text strings.Builder
	for range 1 + p.upTo(5) {
		text.WriteString(p.word("[", "]", "{", "}", ",", ":", "1", "-2.5", "1e3", "0x1F", `"a"`, `"\\u00e9"`, "true", "false", "null", " ", "[1,2]", `{"a":1}`, `"\\n"`, "nan", "01", "-", "tru", `"`))
	}
	return "'" + text.String() + "'"
}

// bool returns an expression that is a boolean, most often.
func (p *program) bool() string {
	return p.pick(
		p.word2("true", "false", "b", "n > m", "s == u", "#l > 1"),
		p.use("(%s == %s)", p.any, p.any),
		p.use("(%s ~= %s)", p.any, p.any),
		p.use("(%s < %s)", p.number, p.number),
		p.use("(%s >= %s)", p.number, p.number),
		p.use("(%s < %s)", p.string, p.string),
		p.use("(%s <= %s)", p.string, p.string),
		p.use("not %s", p.any),
		p.use("(%s and %s)", p.bool, p.bool),
		p.use("(%s or %s)", p.bool, p.bool),
		p.use("(%s and not %s)", p.bool, p.bool),
		p.use("rawequal(%s, %s)", p.any, p.any),
		p.wrong,
	)
}

// command returns the arguments of redis.call.
func (p *program) command() string {
	return p.pick(
		p.use("'get', %s", p.key),
		p.use("'set', %s, %s", p.key, p.string),
		p.use("'set', %s, %s", p.key, p.plus),
		p.use("'incr', %s", p.key),
		p.use("'incrby', %s, %s", p.key, p.small),
		p.use("'append', %s, %s", p.key, p.string),
		p.use("'strlen', %s", p.key),
		p.use("'rpush', %s, %s, %s", p.key, p.string, p.plus),
		p.use("'lrange', %s, 0, -1", p.key),
		p.use("'lpop', %s", p.key),
		p.use("'hset', %s, 'f', %s", p.key, p.string),
		p.use("'hgetall', %s", p.key),
		p.use("'hget', %s, 'f'", p.key),
		p.use("'hmget', %s, 'f', 'g'", p.key),
		p.use("'sadd', %s, 'm'", p.key),
		p.use("'smembers', %s", p.key),
		p.use("'sismember', %s, %s", p.key, p.string),
		p.use("'zadd', %s, %s, 'm'", p.key, p.plus),
		p.use("'zscore', %s, 'm'", p.key),
		p.use("'zrange', %s, 0, -1, 'withscores'", p.key),
		p.use("'del', %s", p.key),
		p.use("'exists', %s, %s", p.key, p.key),
		p.use("'type', %s", p.key),
		p.use("'expire', %s, 100", p.key),
		p.use("'persist', %s", p.key),
		p.use("'xadd', %s, '*', 'f'", p.key),
		p.use("'nosuch', %s", p.any),
		p.use("'get'"),
		p.use("'exists', unpack(KEYS)"),
		p.use("%s, %s", p.any, p.any),
		p.use("'ping', %s", p.string),
	)
}

// call returns a function of the library and its arguments, of any type.
func (p *program) call() string {
	name := p.word("string.sub", "string.byte", "string.char", "string.len", "string.upper", "string.format", "string.find", "string.gsub",
		"table.concat", "table.insert", "table.remove", "table.sort", "table.getn", "math.floor", "math.max", "math.random", "tonumber", "tostring", "type",
		"select", "unpack", "ipairs", "pairs", "next", "setmetatable", "getmetatable", "rawget", "rawset", "rawequal", "error", "assert", "pcall", "loadstring",
		"cjson.encode", "cjson.decode", "cmsgpack.pack", "cmsgpack.unpack", "struct.pack", "struct.unpack", "struct.size", "bit.band", "bit.tohex",
		"redis.sha1hex", "redis.error_reply", "redis.status_reply", "redis.call", "redis.pcall", "redis.log", "redis.setresp")
	for range p.upTo(3) {
		name += ", " + p.any()
	}
	return name
}
