import redis


def check():
    client = redis.Redis()
    for pattern in ("hotel:*", "session:*"):
        print(pattern, len(client.keys(pattern)))


def main():
    check()


if __name__ == "__main__":
    main()
