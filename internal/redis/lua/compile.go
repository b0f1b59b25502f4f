package lua

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	gopher "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// Limits of a script: the bytes of its text, and how deep its expressions and blocks are nested. The compiler is
// recursive.
const (
	maxScriptText  = 512 << 10
	maxScriptDepth = 2000
)

// The operators that take memory are replaced by calls of local variables, whose names no script can write.
const (
	concatName = " concat"
	lengthName = " length"
	valueName  = " value"
)

// Compile compiles a script. What it returns is a function that takes the functions for the operators .. and #
// and returns the script as a function.
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

// withOperators returns "local concat, length = ...; return function(...) statements end".
func withOperators(statements []ast.Stmt) []ast.Stmt {
	body := &ast.FunctionExpr{ParList: &ast.ParList{HasVargs: true}, Stmts: statements}
	last := 1
	if n := len(statements); n > 0 {
		last = max(statements[n-1].LastLine(), statements[n-1].Line())
	}
	body.SetLine(1)
	body.SetLastLine(last)
	operators := &ast.LocalAssignStmt{Names: []string{concatName, lengthName}, Exprs: []ast.Expr{&ast.Comma3Expr{}}}
	return []ast.Stmt{operators, &ast.ReturnStmt{Exprs: []ast.Expr{body}}}
}

// syntaxError returns an error of the parser with the line first, as Lua does.
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

// rewriter replaces operators by calls of functions.
type rewriter struct {
	depth   int
	tooDeep bool
}

// enter counts a level of the syntax and reports whether it may be entered. leave must follow then.
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
		statements[i] = throughLocal(s)
	}
}

// throughLocal returns "do local value = x; a = value end" for "a = x" if x is made of "and" and "or". The compiler
// would leave a as it is for some of them, such as "a = not a and x".
func throughLocal(s ast.Stmt) ast.Stmt {
	assign, ok := s.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return s
	}
	x, ok := assign.Rhs[0].(*ast.LogicalOpExpr)
	if _, isName := assign.Lhs[0].(*ast.IdentExpr); !ok || !isName {
		return s
	}
	value := &ast.IdentExpr{Value: valueName}
	value.SetLine(x.Line())
	local := &ast.LocalAssignStmt{Names: []string{valueName}, Exprs: assign.Rhs}
	local.SetLine(s.Line())
	assign.Rhs = []ast.Expr{value}
	block := &ast.DoBlockStmt{Stmts: []ast.Stmt{local, assign}}
	block.SetLine(s.Line())
	block.SetLastLine(s.LastLine())
	return block
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

// expr rewrites an expression in its place.
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

// operands returns the operands of a chain of concatenations.
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

// maxOperands is the number of arguments of a call, for which the compiler has registers.
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
