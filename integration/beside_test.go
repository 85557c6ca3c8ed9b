package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Each test runs beside others, or says why it cannot: its first statement is t.Parallel() or alone(t, why).
func TestEachSaysWhetherItIsAlone(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	tests := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			tests++
			if first := firstCall(f.Body); first != "t.Parallel" && first != "alone" {
				t.Errorf("%s: %s begins with neither t.Parallel() nor alone(t, why)", name, f.Name.Name)
			}
		}
	}
	if tests < 100 {
		t.Errorf("only %d tests were found", tests)
	}
}

// firstCall is the function that a body calls first, where it begins with a call.
func firstCall(body *ast.BlockStmt) string {
	if len(body.List) == 0 {
		return ""
	}
	statement, ok := body.List[0].(*ast.ExprStmt)
	if !ok {
		return ""
	}
	call, ok := statement.X.(*ast.CallExpr)
	if !ok {
		return ""
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}
