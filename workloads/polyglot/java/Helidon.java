import io.helidon.webserver.WebServer;

/** Helidon, which needs Java 21: a virtual thread for each connection. Helidon CLIENT. */
public final class Helidon {
  public static void main(String[] args) throws Exception {
    var peers = new Peers(args[0]);
    WebServer.builder().host(Peers.HOST).port(Peers.PORT).backlog(4096)
        .routing(r -> r.get("/n/{n}", (request, response) -> response.send(peers.ask(request.path().path()))))
        .build().start();
  }
}
