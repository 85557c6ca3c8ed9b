// Package apiserver has tests of manifests and of the agent against a real API server of
// Kubernetes, with etcd, RBAC and admission, and without any of its controllers: what those
// would make, the tests make. It is a module of its own, which make test-cluster builds and
// nothing else downloads.
package apiserver
