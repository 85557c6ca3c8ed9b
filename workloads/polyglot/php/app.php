<?php // GET /n/5 asks the backend and redis, whose connection the process keeps.
$host = getenv("HOST") ?: "127.0.0.1";
$n = basename(parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH));
$told = file_get_contents("http://$host:" . getenv("BACKEND") . "/n/$n");
$redis = new Redis();
$redis->pconnect($host, (int) getenv("REDIS"));
header("Content-Type: text/plain");
echo "$told {$redis->get("n:$n")}";
