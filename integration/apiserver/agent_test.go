package apiserver

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// token is one of an account in the namespace tare, as a pod of it has.
func (a *api) token(account string) string {
	a.t.Helper()
	made, err := a.client.CoreV1().ServiceAccounts("tare").CreateToken(a.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	a.must(err)
	return made.Status.Token
}
