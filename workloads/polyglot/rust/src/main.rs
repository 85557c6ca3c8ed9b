//! axum: GET /n/5 asks the backend by reqwest, which keeps a pool of connections, and redis over
//! one connection that all requests share.

use axum::{
    extract::{Path, State},
    routing::get,
    Router,
};
use std::env;

#[derive(Clone)]
struct Peers {
    backend: String,
    http: reqwest::Client,
    redis: redis::aio::MultiplexedConnection,
}

async fn answer(State(mut to): State<Peers>, Path(n): Path<String>) -> String {
    let told = to.http.get(format!("{}/n/{n}", to.backend)).send().await.unwrap().text().await.unwrap();
    let got: Option<String> = redis::cmd("GET").arg(format!("n:{n}")).query_async(&mut to.redis).await.unwrap();
    format!("{told} {}", got.unwrap_or_default())
}

#[tokio::main]
async fn main() {
    let host = env::var("HOST").unwrap_or("127.0.0.1".into());
    let at = |name| format!("{host}:{}", env::var(name).expect(name));
    let redis = redis::Client::open(format!("redis://{}/", at("REDIS"))).unwrap();
    let peers = Peers {
        backend: format!("http://{}", at("BACKEND")),
        http: reqwest::Client::new(),
        redis: redis.get_multiplexed_async_connection().await.unwrap(),
    };
    let listener = tokio::net::TcpListener::bind(at("PORT")).await.unwrap();
    axum::serve(listener, Router::new().route("/n/{n}", get(answer)).with_state(peers)).await.unwrap();
}
