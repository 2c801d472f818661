async def chain_id(redis, state_contract_obj, rpc_helper):
    found = await redis.get("chain_id")
    if found:
        return int(found)
    [made] = await rpc_helper.web3_call([state_contract_obj.functions.CHAIN_ID()])
    await redis.set("chain_id", made)
    return made
