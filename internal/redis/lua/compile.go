package lua

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Limits on a script: its length in bytes, and the nesting depth of its expressions and blocks. The
// depth matters because the compiler is recursive.
const (
	maxScriptText  = 512 << 10
	maxScriptDepth = 2000
)

// We replace the operators that take memory or differ from Lua's by calls to local variables. No script
// can write the variables' names.
const (
	concatName = " concat"
	lengthName = " length"
	moduloName = " modulo"
	valueName  = " value"
	targetName = " target"
)

// operatorNames are the parameters for Compile's function.
var operatorNames = []string{concatName, lengthName, moduloName}

// Compile compiles a script. The result is a function that takes the functions for some operators and
// returns the script's function.
func Compile(text, name string) (proto *gopher.FunctionProto, err error) {
	if len(text) > maxScriptText {
		return nil, errors.New("the script is too long")
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %v", name, v)
		}
	}()
	if strings.HasPrefix(text, "\x1b") {
		return nil, errors.New("bytecode is not supported")
	}
	statements, err := parse.Parse(strings.NewReader(text), name)
	if err != nil {
		return nil, syntaxError(name, text, err)
	}
	r := rewriter{}
	r.block(statements)
	if r.tooDeep {
		return nil, fmt.Errorf("%s: chunk has too many syntax levels", name)
	}
	return gopher.Compile(withOperators(statements), name)
}

// withOperators returns "local operators = ...; return function(...) statements end".
func withOperators(statements []ast.Stmt) []ast.Stmt {
	body := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: statements}
	last := 1
	if n := len(statements); n > 0 {
		last = max(statements[n-1].LastLine(), statements[n-1].Line())
	}
	body.SetLine(1)
	body.SetLastLine(last)
	operators := &ast.LocalAssignStmt{Names: operatorNames, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	return []ast.Stmt{operators, &ast.ReturnStmt{Exprs: []ast.Expr{body}}}
}

// syntaxError converts a parser error to Lua's form, with the line first.
func syntaxError(name, text string, err error) error {
	var failed *parse.Error
	if !errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if failed.Pos.Line == parse.EOF {
		return fmt.Errorf("%s:%d: %s near '<eof>'", name, strings.Count(text, "\n")+1, failed.Message)
	}
	return fmt.Errorf("%s:%d: %s near '%s'", name, failed.Pos.Line, failed.Message, failed.Token)
}

// rewriter replaces operators by function calls.
type rewriter struct {
	depth   int
	tooDeep bool
}

// enter counts a nesting level and reports whether it is allowed. If so, the caller must call leave.
func (r *rewriter) enter() bool {
	if r.depth >= maxScriptDepth {
		r.tooDeep = true
		return false
	}
	r.depth++
	return true
}

func (r *rewriter) leave() { r.depth-- }

func (r *rewriter) block(statements []ast.Stmt) {
	if !r.enter() {
		return
	}
	defer r.leave()
	for i, s := range statements {
		r.statement(s)
		statements[i] = corrected(s)
	}
}

// corrected rewrites assignments that the compiler gets wrong:
//
//   - "a = x", where x combines values with "and" and "or", may leave a as it is, and "a = (f(a))"
//     overwrites the parameter a before passing it. They become "do local value = x; a = value end".
//   - "a, b = x, y" assigns a before it computes y. It becomes "do local value1, value2 = x, y; b = value2;
//     a = value1 end". If the left side has tables and keys, they are computed first.
//   - "local f = function … end" lets the function see the new f. With a nil after it, the function sees
//     the old f.
func corrected(s ast.Stmt) ast.Stmt {
	switch s := s.(type) {
	case *ast.LocalAssignStmt:
		return correctedLocal(s)
	case *ast.AssignStmt:
		_, isName := s.Lhs[0].(*ast.IdentExpr)
		_, isLogical := s.Rhs[0].(*ast.LogicalOpExpr)
		f, isCall := s.Rhs[0].(*ast.FuncCallExpr)
		if len(s.Lhs) > 1 || isName && (isLogical || isCall && f.AdjustRet) {
			return throughLocals(s)
		}
	}
	return s
}

func correctedLocal(s *ast.LocalAssignStmt) ast.Stmt {
	if len(s.Names) != 1 || len(s.Exprs) != 1 || s.LastLine() != 0 {
		return s // the parser sets the last line only for "local function f() … end"
	}
	if _, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
		none := &ast.NilExpr{}
		none.SetLine(s.Line())
		s.Exprs = append(s.Exprs, none)
	}
	return s
}

// throughLocals returns a block that assigns from local variables, the last one first, as Lua does.
func throughLocals(s *ast.AssignStmt) ast.Stmt {
	before := &locals{line: s.Line(), name: targetName}
	values := &locals{line: s.Line(), name: valueName}
	var assignments []ast.Stmt
	for _, target := range s.Lhs {
		if attr, ok := target.(*ast.AttrGetExpr); ok {
			attr.Object = before.add(attr.Object)
			if _, constant := attr.Key.(*ast.StringExpr); !constant {
				attr.Key = before.add(attr.Key)
			}
		}
		assign := &ast.AssignStmt{Lhs: []ast.Expr{target}, Rhs: []ast.Expr{values.add(nil)}}
		assign.SetLine(s.Line())
		assignments = append(assignments, assign)
	}
	values.exprs = s.Rhs
	slices.Reverse(assignments)
	block := &ast.DoBlockStmt{Stmts: append([]ast.Stmt{before.statement(), values.statement()}, assignments...)}
	block.SetLine(s.Line())
	block.SetLastLine(s.LastLine())
	return block
}

// locals are local variables with names that no script can write.
type locals struct {
	line  int
	name  string
	names []string
	exprs []ast.Expr
}

// add adds a variable for an expression, and returns the variable.
func (v *locals) add(x ast.Expr) ast.Expr {
	name := v.name + strconv.Itoa(len(v.names))
	v.names = append(v.names, name)
	v.exprs = append(v.exprs, x)
	use := &ast.IdentExpr{Value: name}
	use.SetLine(v.line)
	return use
}

// statement returns the variables' declaration.
func (v *locals) statement() ast.Stmt {
	if len(v.names) == 0 {
		return &ast.DoBlockStmt{}
	}
	s := &ast.LocalAssignStmt{Names: v.names, Exprs: v.exprs}
	s.SetLine(v.line)
	return s
}

func (r *rewriter) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		r.all(s.Lhs)
		r.all(s.Rhs)
	case *ast.LocalAssignStmt:
		r.all(s.Exprs)
	case *ast.FuncCallStmt:
		r.expr(&s.Expr)
	case *ast.DoBlockStmt:
		r.block(s.Stmts)
	case *ast.WhileStmt:
		r.expr(&s.Condition)
		r.block(s.Stmts)
	case *ast.RepeatStmt:
		r.expr(&s.Condition)
		r.block(s.Stmts)
	case *ast.IfStmt:
		r.expr(&s.Condition)
		r.block(s.Then)
		r.block(s.Else)
	case *ast.NumberForStmt:
		r.expr(&s.Init)
		r.expr(&s.Limit)
		r.expr(&s.Step)
		r.block(s.Stmts)
	case *ast.GenericForStmt:
		r.all(s.Exprs)
		r.block(s.Stmts)
	case *ast.FuncDefStmt:
		r.expr(&s.Name.Func)
		r.expr(&s.Name.Receiver)
		r.block(s.Func.Stmts)
	case *ast.ReturnStmt:
		r.all(s.Exprs)
	}
}

func (r *rewriter) all(list []ast.Expr) {
	for i := range list {
		r.expr(&list[i])
	}
}

// expr rewrites an expression in place.
func (r *rewriter) expr(p *ast.Expr) {
	if *p == nil || !r.enter() {
		return
	}
	defer r.leave()
	switch e := (*p).(type) {
	case *ast.AttrGetExpr:
		r.expr(&e.Object)
		r.expr(&e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			r.expr(&f.Key)
			r.expr(&f.Value)
			adjust(f)
		}
	case *ast.FuncCallExpr:
		r.expr(&e.Func)
		r.expr(&e.Receiver)
		r.all(e.Args)
	case *ast.LogicalOpExpr:
		r.expr(&e.Lhs)
		r.expr(&e.Rhs)
	case *ast.RelationalOpExpr:
		r.expr(&e.Lhs)
		r.expr(&e.Rhs)
	case *ast.ArithmeticOpExpr:
		r.expr(&e.Lhs)
		r.expr(&e.Rhs)
		if e.Operator == "%" {
			*p = operatorCall(e, moduloName, []ast.Expr{e.Lhs, e.Rhs})
		}
	case *ast.UnaryMinusOpExpr:
		r.expr(&e.Expr)
	case *ast.UnaryNotOpExpr:
		r.expr(&e.Expr)
	case *ast.FunctionExpr:
		r.block(e.Stmts)
	case *ast.UnaryLenOpExpr:
		r.expr(&e.Expr)
		*p = operatorCall(e, lengthName, []ast.Expr{e.Expr})
	case *ast.StringConcatOpExpr:
		operands := r.operands(e)
		*p = concatCall(e, operands)
	}
}

// adjust makes a keyed field, such as "{k = f()}", take only a call's first result. If the field is the
// last one, the compiler would add all results to the list.
func adjust(f *ast.Field) {
	if f.Key == nil {
		return
	}
	switch v := f.Value.(type) {
	case *ast.FuncCallExpr:
		v.AdjustRet = true
	case *ast.Comma3Expr:
		v.AdjustRet = true
	}
}

// operands returns the operands in a chain of concatenations.
func (r *rewriter) operands(e *ast.StringConcatOpExpr) []ast.Expr {
	var all []ast.Expr
	for {
		r.expr(&e.Lhs)
		all = append(all, e.Lhs)
		next, ok := e.Rhs.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		e = next
	}
	r.expr(&e.Rhs)
	if len(all) > maxScriptDepth {
		r.tooDeep = true
	}
	return append(all, e.Rhs)
}

// maxOperands caps a call's arguments, because the compiler needs registers for them.
const maxOperands = 50

// concatCall returns a call that concatenates operands, the last ones first.
func concatCall(at ast.Expr, operands []ast.Expr) ast.Expr {
	for len(operands) > maxOperands {
		cut := len(operands) - maxOperands
		last := slices.Clone(operands[cut:])
		operands = append(operands[:cut], operatorCall(at, concatName, last))
	}
	return operatorCall(at, concatName, operands)
}

func operatorCall(at ast.Expr, name string, args []ast.Expr) ast.Expr {
	f := &ast.IdentExpr{Value: name}
	f.SetLine(at.Line())
	f.SetLastLine(at.LastLine())
	c := &ast.FuncCallExpr{Func: f, Args: args, AdjustRet: true}
	c.SetLine(at.Line())
	c.SetLastLine(at.LastLine())
	return c
}
